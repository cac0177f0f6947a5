//go:build hadoop

package hadooptest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The shell of Hadoop's file systems is started some thirty times for a load. Java
// takes half of the time to read the same classes again, unless it finds them in an
// archive of its own making (class data sharing).
const (
	shellClass   = "org.apache.hadoop.fs.FsShell"
	shellArchive = "fsshell.jsa"
)

// shellJars is the class path of the shell up to its site files. An archive holds for
// a class path that begins with the jars it was made of, in their order. Hadoop's jars for
// tests are not among them: what they say of logging would go before the site files',
// and puts it where the contents of files belong.
func (h hadoop) shellJars() (string, error) {
	jars, err := filepath.Glob(filepath.Join(h.jars, "*.jar")) // sorted
	jars = slices.DeleteFunc(jars, func(jar string) bool { return strings.HasSuffix(jar, "-tests.jar") })
	if err != nil || len(jars) == 0 {
		return "", errors.Join(err, fmt.Errorf("no jars in %s", h.jars))
	}
	return strings.Join(jars, ":"), nil
}

// shellFlags must be the same where the archive is made and used. Java would write
// what it thinks of an archive to standard output.
var shellFlags = []string{"-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xlog:disable", "-Djava.net.preferIPv4Stack=true"}

// archiveShell makes the archive in a folder.
func (h hadoop) archiveShell(folder string) error {
	jars, err := h.shellJars()
	if err != nil {
		return err
	}
	sites, list := filepath.Join(folder, "sites"), filepath.Join(folder, "fsshell.classlist")
	if err := writeSites(sites, "OFF", nil); err != nil {
		return err
	}
	java := func(args ...string) *exec.Cmd {
		return exec.Command(filepath.Join(h.home, "bin/java"), append(append([]string{}, shellFlags...), args...)...)
	}
	// It fails, since nobody listens there, but not before it has come as far as that.
	shell := java("-XX:DumpLoadedClassList="+list, names(sites), "-cp", jars+":"+sites, shellClass,
		"-D", "ipc.client.connect.max.retries=0", "-D", "dfs.client.retry.policy.enabled=false", "-ls", "hdfs://127.0.0.1:1/")
	if out, err := shell.CombinedOutput(); shell.ProcessState == nil || !exists(list) {
		return fmt.Errorf("list the classes of Hadoop's shell: %v\n%s", err, out)
	}
	dump := java("-Xshare:dump", "-XX:SharedClassListFile="+list, "-XX:SharedArchiveFile="+filepath.Join(folder, shellArchive), "-cp", jars)
	if out, err := dump.CombinedOutput(); err != nil {
		return fmt.Errorf("archive the classes of Hadoop's shell: %w\n%s", err, out)
	}
	return nil
}

// shellArgv is the command line of the shell.
func (h hadoop) shellArgv(sites string, args ...string) ([]string, error) {
	jars, err := h.shellJars()
	if err != nil {
		return nil, err
	}
	argv := append([]string{filepath.Join(h.home, "bin/java")}, shellFlags...)
	argv = append(argv, "-XX:SharedArchiveFile="+filepath.Join(h.classes, shellArchive), names(sites), "-cp", jars+":"+sites, shellClass)
	return append(argv, args...), nil
}

// shell runs the shell where a test wants it.
func (p place) shell(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	argv, err := p.shellArgv(p.sites, args...)
	if err != nil {
		return "", err
	}
	stdout, _, err = run(t.Context(), os.TempDir(), p.program(), argv...)
	return stdout, err
}

// dfs is the program hdfs dfs. The test fails if it does.
func (p place) dfs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.shell(t, args...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return out
}
