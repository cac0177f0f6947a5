package kafkalab;

import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapreduce.v2.MiniMRYarnCluster;
import org.apache.hadoop.yarn.conf.YarnConfiguration;

/**
 * Hadoop's own mini cluster in one process: a NameNode and a DataNode, a
 * ResourceManager, a NodeManager and a job history server, each on a free port of
 * the loopback. Containers are processes of their own, as on any cluster.
 *
 * <p>Arguments: the folder for what it stores, and the one where it writes what a
 * client must know (core-site.xml and so on, once all of it listens). Its settings
 * are the site files of its class path. It prints "ready" and the file system's
 * address to standard output, and stops when standard input ends.
 */
public final class MiniCluster {
  private static final String[] SITES = {"core", "hdfs", "yarn", "mapred"};

  private MiniCluster() {}

  public static void main(String[] args) throws Exception {
    HdfsConfiguration.init();
    Configuration conf = new YarnConfiguration(new JobConf());
    MiniDFSCluster hdfs = new MiniDFSCluster.Builder(conf, new File(args[0], "hdfs")).numDataNodes(1).build();
    hdfs.waitActive();
    MiniMRYarnCluster yarn = new MiniMRYarnCluster("yarn", 1);
    yarn.init(conf);
    yarn.start();
    if (!yarn.waitForNodeManagersToConnect(60_000)) {
      throw new IllegalStateException("no NodeManager has registered within a minute");
    }
    writeSites(yarn.getConfig(), new File(args[1]));
    System.out.println("ready " + hdfs.getURI());
    System.out.flush();
    while (System.in.read() >= 0) {
      // Whoever started this has nothing to say but that it is gone.
    }
    yarn.stop();
    hdfs.shutdown();
    System.exit(0);
  }

  /**
   * Writes what differs from Hadoop's defaults. The same to each file: the defaults
   * of each part are read after the site files of those before it, and win.
   */
  private static void writeSites(Configuration conf, File folder) throws Exception {
    Configuration defaults = new Configuration(false);
    for (String name : SITES) {
      defaults.addResource(name + "-default.xml");
    }
    Configuration site = new Configuration(false);
    for (Map.Entry<String, String> e : conf) {
      if (!e.getValue().equals(defaults.getRaw(e.getKey()))) {
        site.set(e.getKey(), e.getValue());
      }
    }
    for (String name : SITES) {
      try (OutputStream out = new FileOutputStream(new File(folder, name + "-site.xml"))) {
        site.writeXml(out);
      }
    }
  }
}
