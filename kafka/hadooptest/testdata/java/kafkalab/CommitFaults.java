package kafkalab;

import java.io.File;
import java.io.IOException;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * HDFS as it is, but for what comes in the middle of a job's commit: the committer
 * of algorithm 1 moves the files of the tasks to the output folder one after another,
 * and one of these moves is the last for now.
 *
 * <p>Settings: kafkalab.commit.moves, how many moves succeed; kafkalab.commit.then,
 * what comes instead of the next one: "die" ends this process as kill -9 does,
 * "wait" makes the file kafkalab.commit.reached on this machine and waits until that
 * is removed.
 */
public final class CommitFaults extends DistributedFileSystem {
  private static final AtomicInteger moves = new AtomicInteger();

  @Override
  public boolean rename(Path from, Path to) throws IOException {
    if (ofCommit(from, to) && moves.incrementAndGet() == getConf().getInt("kafkalab.commit.moves", 1) + 1) {
      if (getConf().get("kafkalab.commit.then").equals("die")) {
        Runtime.getRuntime().halt(137);
      }
      await(new File(getConf().get("kafkalab.commit.reached")));
    }
    return super.rename(from, to);
  }

  /** Whether this moves out of the folder of a task that was committed. */
  private static boolean ofCommit(Path from, Path to) {
    return from.toString().contains("/_temporary/") && !to.toString().contains("/_temporary/");
  }

  private static void await(File reached) throws IOException {
    if (!reached.createNewFile()) {
      throw new IOException(reached + " is there already");
    }
    try {
      while (reached.exists()) {
        Thread.sleep(20);
      }
    } catch (InterruptedException e) {
      throw new IOException("interrupted in a commit", e);
    }
  }
}
