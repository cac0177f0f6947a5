//go:build hadoop

package hadooptest

import (
	"context"
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
	"time"
)

// hadoop is Hadoop as it is installed for these tests.
type hadoop struct {
	home    string // of Java: bin/java is there
	jars    string // a folder
	classes string // a folder: what testdata/java became, and the archive of the shell
}

// The versions of Java that the jars of testdata/pom.xml run on. From 23 on it refuses
// the way in which this Hadoop asks who the user is (HADOOP-19212).
const leastJava, lastJava = 17, 22

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
	if v, err := strconv.Atoi(string(m[1])); err != nil || v < leastJava || v > lastJava {
		return "", fmt.Errorf("the Java in %s is %s, and this Hadoop runs on %d to %d: %s, or put another javac on the path", home, m[1], leastJava, lastJava, how)
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
		var err error
		for range fetches {
			if err = fetchInto(partial, pom); err == nil {
				return nil
			}
		}
		return fmt.Errorf("fetch the jars of Hadoop, %d times: %w", fetches, err)
	})
}

// A fetch that breaks off or stands still is tried again, and goes on where it was.
const (
	fetches    = 3
	fetchLimit = 5 * time.Minute
)

func fetchInto(folder, pom string) error {
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	// Maven remembers what it did not find, unless it is told to look anew (-U).
	mvn := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "-U", "--file", pom, "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+folder)
	mvn.WaitDelay = 5 * time.Second
	if out, err := mvn.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, tail(string(out), 40))
	}
	return nil
}

// compile returns the folder of the classes of testdata/java and of what shell_test.go makes.
func (h hadoop) compile(cache string) (string, error) {
	sources, err := filepath.Glob("testdata/java/kafkalab/*.java")
	if err != nil || len(sources) == 0 {
		return "", errors.Join(err, fs.ErrNotExist)
	}
	sum, err := sumOf(append(sources, "testdata/pom.xml", "shell_test.go", "sites_test.go")...)
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
func flags(heap, sites string) []string {
	f := []string{"-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote",
		"-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true", names(sites)}
	for _, p := range opened {
		f = append(f, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	return f
}

// classPath begins with the folder of the site files.
func (h hadoop) classPath(sites string) string { return sites + ":" + h.classes + ":" + h.jars + "/*" }

// argv is the command line of a main class of Hadoop's, or of ours.
func (h hadoop) argv(heap, sites, class string, args ...string) []string {
	argv := append([]string{filepath.Join(h.home, "bin/java")}, flags(heap, sites)...)
	return append(append(argv, "-cp", h.classPath(sites), class), args...)
}
