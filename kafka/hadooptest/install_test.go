//go:build hadoop

package hadooptest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// hadoop is Hadoop as it is installed for these tests.
type hadoop struct {
	home    string // of Java: bin/java is there
	jars    string // a folder
	classes string // a folder: what testdata/java became, and the archive of the shell
}

// leastJava is the version of Java that the jars of testdata/pom.xml are made for.
const leastJava = 17

var install = sync.OnceValues(func() (hadoop, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return hadoop{}, fmt.Errorf("folder for the jars: %w", err)
	}
	h := hadoop{}
	if h.home, err = javaHome(); err != nil {
		return h, err
	}
	if h.jars, err = fetchJars(filepath.Join(cache, "kafkalab")); err != nil {
		return h, err
	}
	h.classes, err = h.compile(filepath.Join(cache, "kafkalab"))
	return h, err
})

// installed returns Hadoop, fetched and compiled at the first call.
func installed(t *testing.T) hadoop {
	t.Helper()
	h, err := install()
	if err != nil {
		t.Fatalf("Hadoop for these tests: %v", err)
	}
	return h
}

// javaHome returns the folder of the Java on the path.
func javaHome() (string, error) {
	const how = `run "make setup"`
	javac, err := exec.LookPath("javac")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, how)
	}
	if javac, err = filepath.EvalSymlinks(javac); err != nil {
		return "", err
	}
	home := filepath.Dir(filepath.Dir(javac))
	release, err := os.ReadFile(filepath.Join(home, "release"))
	if err != nil {
		return "", fmt.Errorf("version of Java: %w", err)
	}
	m := regexp.MustCompile(`(?m)^JAVA_VERSION="(\d+)`).FindSubmatch(release)
	if m == nil {
		return "", fmt.Errorf("version of Java: %s/release does not tell", home)
	}
	if v, err := strconv.Atoi(string(m[1])); err != nil || v < leastJava {
		return "", fmt.Errorf("the Java in %s is %s, these jars need %d: %s", home, m[1], leastJava, how)
	}
	return home, nil
}

// fetchJars returns the folder that holds what testdata/pom.xml names, and fetches it
// if it is not there. Its name changes with the file's contents; it is there as a whole
// or not at all.
func fetchJars(cache string) (string, error) {
	const pom = "testdata/pom.xml"
	sum, err := sumOf(pom)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "hadoop-"+sum)
	return folder, makeWhole(folder, func(partial string) error {
		mvn := exec.Command("mvn", "--batch-mode", "--quiet", "--file", pom, "dependency:copy-dependencies",
			"-DincludeScope=runtime", "-DoutputDirectory="+partial)
		if out, err := mvn.CombinedOutput(); err != nil {
			return fmt.Errorf("fetch the jars of Hadoop: %w\n%s", err, out)
		}
		return nil
	})
}

// compile returns the folder of the classes of testdata/java and of what shell_test.go makes.
func (h hadoop) compile(cache string) (string, error) {
	sources, err := filepath.Glob("testdata/java/kafkalab/*.java")
	if err != nil || len(sources) == 0 {
		return "", errors.Join(err, fs.ErrNotExist)
	}
	sum, err := sumOf(append(sources, "testdata/pom.xml", "shell_test.go")...)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "hadooptest-"+sum)
	return folder, makeWhole(folder, func(partial string) error {
		javac := exec.Command(filepath.Join(h.home, "bin/javac"),
			append([]string{"-nowarn", "-proc:none", "-d", partial, "-cp", h.jars + "/*"}, sources...)...)
		if out, err := javac.CombinedOutput(); err != nil {
			return fmt.Errorf("javac: %w\n%s", err, out)
		}
		return h.archiveShell(partial)
	})
}

// makeWhole fills a folder beside the one wanted and gives it its name, unless that is
// there.
func makeWhole(folder string, fill func(partial string) error) error {
	if _, err := os.Stat(folder); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(filepath.Dir(folder), filepath.Base(folder)+".partial-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := fill(partial); err != nil {
		return err
	}
	if err := os.Chmod(partial, 0o755); err != nil {
		return err
	}
	if err := os.Rename(partial, folder); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // else another run was quicker
	}
	return nil
}

// sumOf names the contents of files.
func sumOf(files ...string) (string, error) {
	h := sha256.New()
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return "", err
		}
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// opened are the packages of Java that Hadoop looks into.
var opened = strings.Fields("java.lang java.lang.reflect java.io java.math java.net java.nio java.text java.time " +
	"java.util java.util.concurrent java.util.zip sun.nio.ch")

// flags of each Java: quick to start, small, and as open as Hadoop wants it.
func flags(heap string) []string {
	f := []string{"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"}
	for _, p := range opened {
		f = append(f, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	return f
}

// classPath begins with the folder of the site files.
func (h hadoop) classPath(sites string) string { return sites + ":" + h.classes + ":" + h.jars + "/*" }

// argv is the command line of a main class of Hadoop's, or of ours.
func (h hadoop) argv(heap, sites, class string, args ...string) []string {
	argv := append([]string{filepath.Join(h.home, "bin/java")}, flags(heap)...)
	return append(append(argv, "-cp", h.classPath(sites), class), args...)
}
