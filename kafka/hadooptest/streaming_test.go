//go:build hadoop

package hadooptest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// job is one of Hadoop Streaming: each line of the input is a map task's, there is no
// reducer, and the committer is that of algorithm 1.
type job struct {
	input, output string
	mapper        string            // command line
	files         []string          // that Hadoop brings to where the tasks run
	environment   map[string]string // of the mapper; no blanks in the values
	settings      settings
}

// arguments are those of the program mapred streaming.
func (j job) arguments() []string {
	s := settings{
		"mapreduce.job.reduces":                           "0",
		"mapreduce.fileoutputcommitter.algorithm.version": "1",
		"mapreduce.input.lineinputformat.linespermap":     "1",
	}
	maps.Copy(s, j.settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		args = append(args, "-D", name+"="+s[name])
	}
	if len(j.files) > 0 {
		args = append(args, "-files", strings.Join(j.files, ","))
	}
	args = append(args, "-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat",
		"-input", j.input, "-output", j.output, "-mapper", j.mapper)
	for _, name := range slices.Sorted(maps.Keys(j.environment)) {
		args = append(args, "-cmdenv", name+"="+j.environment[name])
	}
	return args
}

// place is where jobs run: the local job runner, or the mini cluster.
type place struct {
	hadoop
	sites string            // of the programs that submit jobs
	root  string            // a folder for the test, as a URL or a path
	tools map[string]string // the environment in which hdfs is found
}

// localPlace is the local job runner with a folder of this machine.
func localPlace(t *testing.T) place {
	t.Helper()
	h := installed(t)
	sites := newSites(t, localSettings(t.TempDir()))
	return place{hadoop: h, sites: sites, root: t.TempDir(), tools: newHDFS(t, h, sites)}
}

// yarnPlace is the mini cluster, with a folder of its HDFS.
func yarnPlace(t *testing.T) place {
	t.Helper()
	c := sharedCluster(t)
	h := installed(t)
	return place{hadoop: h, sites: c.sites, root: c.hdfs + "/" + t.Name(), tools: newHDFS(t, h, c.sites)}
}

// program is the environment of a program that finds hdfs on its path.
func (p place) program() []string {
	var env []string
	for name, value := range p.tools {
		env = append(env, name+"="+value)
	}
	return p.environment(env...)
}

// submit runs a job to its end. The error of one that failed holds what its client
// said; after it the output is not complete.
func (p place) submit(t *testing.T, j job) (log string, err error) {
	t.Helper()
	argv := p.argv("256m", p.sites, "org.apache.hadoop.streaming.HadoopStreaming", j.arguments()...)
	// Streaming leaves the jar that it makes there.
	argv = slices.Insert(argv, 1, "-Djava.io.tmpdir="+p.tools["TMPDIR"])
	out, log, err := run(t.Context(), t.TempDir(), p.program(), argv...)
	if err != nil {
		return log, fmt.Errorf("%w\n%s", err, out)
	}
	return log, nil
}
