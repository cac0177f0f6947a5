package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
)

// sshPort is where both sshd servers listen, each in its own namespace.
const sshPort = 2222

// serverWait bounds the start of an sshd.
const serverWait = 20 * time.Second

// SSHTestbed is two sshd servers in two namespaces that are joined by a link.
// This machine reaches each by a network of its own, as one would reach two
// machines of a rack by their management ports.
type SSHTestbed struct {
	// File is a testbed file for "testbed --testbed FILE".
	File           string
	Client, Broker host.Config
	Link           link.Config
	// Log returns what the servers have logged so far.
	Log func() string
}

// SSH starts the two servers and ends them with the test.
func SSH(t testing.TB, binDir string) SSHTestbed {
	t.Helper()
	for _, program := range []string{"/usr/sbin/sshd", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%v: install the packages openssh-server and openssh-client (\"make setup\")", err)
		}
	}
	l := Link(t)
	keys := t.TempDir()
	keygen(t, filepath.Join(keys, "id"))
	public, err := os.ReadFile(filepath.Join(keys, "id.pub"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(keys, "authorized_keys"), string(public))
	log := &syncBuffer{}
	tb := SSHTestbed{Link: l, Log: log.String}
	clientConfig, brokerConfig := NamespaceConfigs(t, l, binDir)
	var known, settings strings.Builder
	for i, c := range []*host.Config{&clientConfig, &brokerConfig} {
		addr := manage(t, c.Namespace, i)
		hostKey := serve(t, *c, addr, keys, log)
		fmt.Fprintf(&known, "[%s]:%d %s", addr, sshPort, hostKey)
		fmt.Fprintf(&settings, "Host kl-%s\n  HostName %s\n  Port %d\n  User %s\n", c.Name, addr, sshPort, userName(t))
		fmt.Fprintf(&settings, "  IdentityFile %[1]s/id\n  IdentitiesOnly yes\n  UserKnownHostsFile %[1]s/known_hosts\n  StrictHostKeyChecking yes\n", keys)
		*c = host.Config{Name: c.Name, Kind: host.SSH, Addr: c.Addr, Dir: c.Dir, BinDir: binDir,
			SSH: host.SSHConfig{Target: "kl-" + c.Name, ConfigFile: filepath.Join(keys, "config")}}
	}
	writeFile(t, filepath.Join(keys, "known_hosts"), known.String())
	writeFile(t, filepath.Join(keys, "config"), settings.String())
	tb.Client, tb.Broker = clientConfig, brokerConfig

	text := "kind = \"ssh\"\n\n[link]\nrate = \"1gbit\"\n"
	for _, c := range []host.Config{tb.Client, tb.Broker} {
		text += fmt.Sprintf("\n[%s]\nssh = %q\nconfig = %q\naddress = %q\ndir = %q\n", c.Name, c.SSH.Target, c.SSH.ConfigFile, c.Addr, c.Dir)
	}
	tb.File = writeTestbed(t, text)
	return tb
}

// manage joins a namespace to this machine and returns its address there. The
// devices go with the namespace.
func manage(t testing.TB, namespace string, index int) string {
	t.Helper()
	n, id := unique()
	// The n-th network of four addresses of 10.128.0.0/9.
	block := net.IPv4(10, byte(128|n>>14), byte(n>>6), byte(n<<2))
	here, there := nextIP(block, 1), nextIP(block, 2)
	device := fmt.Sprintf("klm%s", id)
	for _, args := range [][]string{
		{"link", "add", device, "type", "veth", "peer", "name", "manage", "netns", namespace},
		{"address", "add", here + "/30", "dev", device},
		{"link", "set", "dev", device, "up"},
		{"-netns", namespace, "address", "add", there + "/30", "dev", "manage"},
		{"-netns", namespace, "link", "set", "dev", "manage", "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s (host %d): %v\n%s", strings.Join(args, " "), index, err, out)
		}
	}
	return there
}

func nextIP(block net.IP, n byte) string {
	ip := block.To4()
	return net.IPv4(ip[0], ip[1], ip[2], ip[3]+n).String()
}

// startServer becomes an sshd with the configuration $0. "ip netns exec" has
// hidden the control groups behind a fresh /sys, but a real machine has them.
const startServer = `mount -t cgroup -o memory cgroup /sys/fs/cgroup 2>/dev/null || mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec /usr/sbin/sshd -D -e -f "$0"`

// serve starts an sshd in the namespace of c and returns its public key.
func serve(t testing.TB, c host.Config, addr, keys string, log *syncBuffer) (hostKey string) {
	t.Helper()
	// sshd insists on this folder, which the system makes when it starts sshd.
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(keys, "host-"+c.Name)
	keygen(t, keyFile)
	config := filepath.Join(keys, "sshd-"+c.Name)
	writeFile(t, config, fmt.Sprintf(`ListenAddress %s
Port %d
HostKey %s
AuthorizedKeysFile %s/authorized_keys
PidFile none
StrictModes no
UsePAM no
UseDNS no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
`, addr, sshPort, keyFile, keys))
	h := Open(t, c)
	p, err := h.Start(t.Context(), host.Command{Name: "sshd", Args: []string{"/bin/sh", "-c", startServer, config}, Out: log, Err: log})
	if err != nil {
		t.Fatal(err)
	}
	waitServer(t, p, net.JoinHostPort(addr, fmt.Sprint(sshPort)), log)
	public, err := os.ReadFile(keyFile + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return string(public)
}

// waitServer waits until the server greets.
func waitServer(t testing.TB, p host.Process, addr string, log *syncBuffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), serverWait)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-p.Done():
			t.Fatalf("sshd ended: %v\n%s", p.Wait(ctx), log)
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		greeting := make([]byte, 4)
		_ = conn.SetReadDeadline(time.Now().Add(serverWait))
		_, err = conn.Read(greeting)
		conn.Close()
		if err == nil {
			return
		}
	}
	t.Fatalf("sshd did not answer on %s within %v\n%s", addr, serverWait, log)
}

func keygen(t testing.TB, file string) {
	t.Helper()
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kafkalab test", "-f", file).CombinedOutput()
	if err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
}

func userName(t testing.TB) string {
	t.Helper()
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.Username
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// syncBuffer is a buffer that several goroutines write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
