package kafkalab;

import org.apache.hadoop.mapreduce.v2.api.records.TaskAttemptId;
import org.apache.hadoop.mapreduce.v2.app.speculate.LegacyTaskRuntimeEstimator;

/**
 * Takes every running attempt for a straggler as soon as one map task has ended.
 *
 * <p>Hadoop's own estimators go by the part of its input that an attempt has read. A
 * streaming map with one line of input has read it all at once, so that none of
 * them ever asks for a second attempt; whether there is one is what is decided here,
 * and all that follows from it is Hadoop's.
 */
public final class EveryTaskIsLate extends LegacyTaskRuntimeEstimator {
  private static final long AN_HOUR = 3_600_000;

  @Override
  public long estimatedRuntime(TaskAttemptId attempt) {
    return AN_HOUR;
  }
}
