//go:build hadoop

package hadooptest

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// settings are Hadoop's, by their names.
type settings map[string]string

// Every program of Hadoop reads four site files, each after the defaults of its part.
var parts = []string{"core", "hdfs", "yarn", "mapred"}

// logging writes to standard error: of the programs for users what a user sees, of
// the servers more.
const logging = `log4j.rootLogger=%s,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%%d{ISO8601} %%p %%c{2}: %%m%%n
log4j.logger.org.apache.hadoop.mapreduce.Job=INFO
log4j.logger.org.apache.hadoop.streaming=INFO
log4j.logger.org.apache.hadoop.util.NativeCodeLoader=ERROR
log4j.logger.org.apache.hadoop.metrics2=ERROR
`

// hosts is the file with the names that Java knows, in a folder of site files.
const hosts = "hosts"

// names is the flag by which Java knows "localhost" and the name of this machine, and
// no other: Hadoop asks for them at every turn, and some of its servers listen where
// that name leads. Neither /etc/hosts nor a name server has a say in it.
func names(sites string) string { return "-Djdk.net.hosts.file=" + filepath.Join(sites, hosts) }

// writeSites writes a folder for the head of a class path: the same settings for each
// part, what is logged, and names.
func writeSites(folder, level string, s settings) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("<configuration>\n")
	for name, value := range s {
		b.WriteString("<property><name>")
		if err := xml.EscapeText(&b, []byte(name)); err != nil {
			return err
		}
		b.WriteString("</name><value>")
		if err := xml.EscapeText(&b, []byte(value)); err != nil {
			return err
		}
		b.WriteString("</value></property>\n")
	}
	b.WriteString("</configuration>\n")
	for _, part := range parts {
		if err := os.WriteFile(filepath.Join(folder, part+"-site.xml"), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "log4j.properties"), fmt.Appendf(nil, logging, level), 0o644); err != nil {
		return err
	}
	machine, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this machine: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, hosts), fmt.Appendf(nil, "127.0.0.1 localhost %s\n", machine), 0o644)
}

// localSettings are those of the local job runner: the file system is this machine's,
// and tasks are threads of the program that submits the job.
func localSettings(dir string) settings {
	return settings{
		"fs.defaultFS":                                  "file:///",
		"hadoop.tmp.dir":                                filepath.Join(dir, "tmp"),
		"mapreduce.framework.name":                      "local",
		"mapreduce.jobtracker.staging.root.dir":         filepath.Join(dir, "staging"),
		"mapreduce.local.map.tasks.maximum":             "2",
		"mapreduce.client.progressmonitor.pollinterval": "100",
	}
}

// clusterSettings are those of the mini cluster, for a machine of two processors and
// a few GB: what it stores goes into one folder, its site files are in the other one.
func (h hadoop) clusterSettings(dir, sites string) settings {
	opts := strings.Join(flags("320m", sites), " ")
	return settings{
		"hadoop.tmp.dir":  filepath.Join(dir, "tmp"),
		"dfs.replication": "1",

		// One application after another: the queues of the other scheduler would
		// want a file of their own.
		"yarn.resourcemanager.scheduler.class":                    "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
		"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
		"yarn.scheduler.minimum-allocation-mb":                    "128",
		// An application master and four tasks, beside an application master that has
		// ended: it stays for five seconds more.
		"yarn.nodemanager.resource.memory-mb":                  "2560",
		"yarn.minicluster.yarn.nodemanager.resource.memory-mb": "2560",
		"yarn.nodemanager.resource.cpu-vcores":                 "16",
		// Else a disk that is 90 % full makes the only node unhealthy, and jobs wait
		// for good.
		"yarn.nodemanager.disk-health-checker.enable": "false",
		// It would look for the processes of a container in /proc.
		"yarn.nodemanager.container-monitor.enabled": "false",

		"mapreduce.framework.name":        "yarn",
		"mapreduce.application.classpath": h.classes + "," + h.jars + "/*",
		"yarn.application.classpath":      h.classes + "," + h.jars + "/*",

		"yarn.app.mapreduce.am.staging-dir":                     "/staging",
		"yarn.app.mapreduce.am.resource.mb":                     "512",
		"yarn.app.mapreduce.am.command-opts":                    opts,
		"yarn.app.mapreduce.am.scheduler.heartbeat.interval-ms": "200",
		// Its failures are on purpose.
		"yarn.app.mapreduce.am.job.node-blacklisting.enable": "false",
		"mapreduce.map.memory.mb":                            "384",
		"mapreduce.map.java.opts":                            opts,
		"mapreduce.map.speculative":                          "false",

		"mapreduce.client.progressmonitor.pollinterval": "200",
		"mapreduce.client.completion.pollinterval":      "200",
	}
}

// newSites writes settings into a folder of the test.
func newSites(t *testing.T, s settings) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "sites")
	if err := writeSites(folder, "WARN", s); err != nil {
		t.Fatalf("site files: %v", err)
	}
	return folder
}
