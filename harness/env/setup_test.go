package env_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kafkalab/harness/host/hosttest"
)

// setupCall runs setup.sh where RabbitMQ, ip and sshd seem to be missing: in a
// mount namespace in which empty folders lie over theirs, so that nothing of
// the machine is touched. sbin is what lies over /usr/sbin; the programs in
// stubs come first on the PATH, and systemctl, which would speak to the
// machine's own systemd, only shows how it was called. /run is that of a machine
// with systemd.
func setupCall(t *testing.T, sbin string, stubs map[string]string) (out string, err error) {
	t.Helper()
	hosttest.Root(t)
	bin := t.TempDir()
	stubs["systemctl"] = `echo "systemctl $*" >&2` + "\n"
	for name, text := range stubs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c",
		`mount --bind "$1" /usr/lib/rabbitmq/bin && mount --bind "$2" /usr/sbin && mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH=$3:$PATH exec sh ./setup.sh`,
		"sh", t.TempDir(), sbin, bin)
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func TestSetupIsQuietWhenNothingIsMissing(t *testing.T) {
	out, err := exec.Command("sh", "./setup.sh").CombinedOutput()
	if err != nil || len(out) != 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// aptStub asks the policy as the packages' scripts do, and shows it.
const aptStub = `echo "apt-get $*"
[ "$1" != install ] || { /usr/sbin/policy-rc.d rabbitmq-server start; echo "policy $?"; }
`

func TestSetupStartsNothing(t *testing.T) {
	sbin := t.TempDir()
	out, err := setupCall(t, sbin, map[string]string{"apt-get": aptStub})
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"systemctl disable --quiet rabbitmq-server.service", "systemctl disable --quiet ssh.service ssh.socket", "apt-get update", "install -y -q --no-install-recommends", "rabbitmq-server nats-server haproxy iproute2 openssh-server", "systemctl disable --quiet nats-server.service", "policy 101"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if strings.Contains(out, "activemq") {
		t.Errorf("what is there was installed: %s", out)
	}
	if names, err := os.ReadDir(sbin); err != nil || len(names) != 0 {
		t.Errorf("left: %v, %v", names, err)
	}
}

// A policy of the user's own is put back, whether the installation works or
// fails, and also after a call that was killed.
func TestSetupRestoresThePolicy(t *testing.T) {
	sbin := t.TempDir()
	policy := filepath.Join(sbin, "policy-rc.d")
	const own = "#!/bin/sh\nexit 0\n"
	if err := os.WriteFile(policy, []byte(own), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stub, want string
		ok               bool
	}{
		{"works", aptStub, "policy 101", true},
		{"fails", "exit 100\n", "failed", false},
		{"killed", "kill -KILL $PPID\n", "", false},
		{"after it", aptStub, "policy 101", true},
	} {
		out, err := setupCall(t, sbin, map[string]string{"apt-get": c.stub})
		if (err == nil) != c.ok || !strings.Contains(out, c.want) {
			t.Errorf("%s: %v: %s", c.name, err, out)
		}
		if c.name == "killed" {
			continue // nobody was left to put it back
		}
		got, err := os.ReadFile(policy)
		if err != nil || string(got) != own {
			t.Errorf("%s: the policy is %q, %v", c.name, got, err)
		}
		if names, err := os.ReadDir(sbin); err != nil || len(names) != 1 {
			t.Errorf("%s: left: %v, %v", c.name, names, err)
		}
	}
}

func TestSetupWithoutRights(t *testing.T) {
	out, err := setupCall(t, t.TempDir(), map[string]string{
		"id": "echo 1000\n", "sudo": "exit 1\n", "apt-get": "echo must not be called; exit 1\n",
	})
	if err == nil || !strings.Contains(out, "apt-get install --no-install-recommends rabbitmq-server") || strings.Contains(out, "must not") {
		t.Errorf("%v: %s", err, out)
	}
}
