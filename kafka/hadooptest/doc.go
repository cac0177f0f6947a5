// Package hadooptest holds tests, and nothing else, of the load into Hadoop
// (kafka/etl) on Hadoop itself: "make test-hadoop" runs them, since they fetch 110 MB
// of jars once and take minutes. The build tag hadoop brings them in.
//
// # What is real
//
// Hadoop comes as it is published for Maven: testdata/pom.xml names the version, the
// jars are kept in the user's cache folder. The local job runner and, in one process
// of Hadoop's own (testdata/java/kafkalab/MiniCluster.java), HDFS and YARN run the job
// that a user would submit: Hadoop Streaming with "kafka etl map" as mapper, one
// split a map task through NLineInputFormat, no reducer, the file output committer of
// algorithm 1. Containers are processes. The brokers are those of kafkatest, and each
// message that was produced is looked for in what was loaded.
//
// # What goes wrong on purpose
//
// Mappers are killed with -9 before, in the midst of and after their work
// (mapper_test.go); two attempts of a task run at once and either of them wins; the
// application master dies, or the job is killed, between two moves of the commit
// (CommitFaults.java). After each of them the output must hold each message exactly
// once.
package hadooptest
