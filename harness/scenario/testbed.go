package scenario

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"kafkalab/harness/host"
	"kafkalab/harness/link"
)

// maxTestbedBytes is far more than a testbed file takes.
const maxTestbedBytes = 64 << 10

// Testbed is two hosts and the link between them.
type Testbed struct {
	Kind host.Kind
	// The two machines. With Kind SSH the client host may be this machine, and
	// then is of kind Local.
	ClientHost, BrokerHost host.Config
	// Link is the whole link for Kind Namespace; else only its RateMbps is of
	// use, which the real link is held against (0: any rate is taken).
	Link link.Config
	// BrokerLimits are the cores and the memory that every broker is to have.
	// What is left open is filled in on the host ([host.Limits.WithDefaults]).
	BrokerLimits host.Limits
}

// Emulated reports whether both hosts are sure to share one machine. Of hosts
// behind ssh that is found when a run looks at them.
func (t Testbed) Emulated() bool { return t.Kind != host.SSH }

// LinkNote says how the link is made, for results.
func (t Testbed) LinkNote() string {
	switch {
	case t.Kind == host.Namespace:
		return t.Link.Note()
	case t.Kind == host.Local:
		return "loopback of one machine, not held to a rate"
	case t.Link.RateMbps == 0:
		return "real network, of no declared rate"
	}
	return fmt.Sprintf("real network, declared at %d Mb/s", t.Link.RateMbps)
}

// The tables of a testbed file. Which key is for which kind of testbed is
// checked after decoding, so that the message can say so.
type (
	testbedFile struct {
		Kind   string    `toml:"kind"`
		Link   linkTable `toml:"link"`
		Client hostTable `toml:"client"`
		Broker hostTable `toml:"broker"`
	}
	linkTable struct {
		Rate       *string `toml:"rate"`
		Congestion *string `toml:"congestion"`
		Prefix     *int    `toml:"prefix"`
	}
	hostTable struct {
		Name      *string `toml:"name"`
		Address   *string `toml:"address"`
		Dir       *string `toml:"dir"`
		Namespace *string `toml:"namespace"`
		Device    *string `toml:"device"`
		SSH       *string `toml:"ssh"`
		Port      *int    `toml:"port"`
		Identity  *string `toml:"identity"`
		Config    *string `toml:"config"`
		Cores     *string `toml:"cores"`
		Memory    *string `toml:"memory"`
	}
)

// LoadTestbed reads a testbed file. An empty path is the built-in testbed: two
// network namespaces of this machine.
func LoadTestbed(path string) (Testbed, error) {
	if path == "" {
		return testbedFile{Kind: string(host.Namespace)}.build("")
	}
	f, err := os.Open(path)
	if err != nil {
		return Testbed{}, fmt.Errorf("testbed file: %w (scenarios/testbed.example.toml is a template)", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTestbedBytes+1))
	if err != nil {
		return Testbed{}, fmt.Errorf("testbed file: %w", err)
	}
	if len(text) > maxTestbedBytes {
		return Testbed{}, fmt.Errorf("%s: more than %d bytes: is it a testbed file?", path, maxTestbedBytes)
	}
	return parseTestbed(path, text)
}

func parseTestbed(path string, text []byte) (Testbed, error) {
	var file testbedFile
	if err := decodeStrict(path, text, &file); err != nil {
		return Testbed{}, err
	}
	t, err := file.build(filepath.Dir(path))
	if err != nil {
		return Testbed{}, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// build fills in what the file leaves open, and checks the whole. Relative
// paths of ssh's files start at folder.
func (f testbedFile) build(folder string) (Testbed, error) {
	t := Testbed{Kind: host.Kind(f.Kind), Link: link.Default()}
	switch t.Kind {
	case host.Namespace, host.SSH, host.Local:
	default:
		return t, fmt.Errorf("kind %q: one of \"netns\" (two emulated hosts), \"ssh\" (real machines), \"local\" (this machine, without a link) is wanted", f.Kind)
	}
	errs := []error{f.Link.build(&t), f.limits(&t.BrokerLimits)}
	for _, h := range []struct {
		table string
		in    hostTable
		out   *host.Config
		end   *link.End
	}{{"client", f.Client, &t.ClientHost, &t.Link.Client}, {"broker", f.Broker, &t.BrokerHost, &t.Link.Broker}} {
		if err := h.in.build(t.Kind, folder, h.table, h.out, h.end); err != nil {
			errs = append(errs, fmt.Errorf("[%s] %w", h.table, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return t, err
	}
	if t.ClientHost.Name == t.BrokerHost.Name {
		errs = append(errs, fmt.Errorf("both hosts have the name %q", t.ClientHost.Name))
	}
	if t.Kind == host.SSH && t.ClientHost.Addr == t.BrokerHost.Addr {
		errs = append(errs, fmt.Errorf("both hosts have the address %s", t.ClientHost.Addr))
	}
	errs = append(errs, t.ClientHost.Validate(), t.BrokerHost.Validate())
	if t.Kind == host.Namespace {
		errs = append(errs, t.Link.Validate())
	}
	return t, errors.Join(errs...)
}

// limits reads what every broker is to have.
func (f testbedFile) limits(l *host.Limits) error {
	if f.Client.Cores != nil || f.Client.Memory != nil {
		return errors.New("[client] cores, memory: only for the broker host, where every broker is to have the same")
	}
	if f.Broker.Memory != nil {
		bytes, err := host.ParseSize(*f.Broker.Memory)
		if err != nil {
			return fmt.Errorf("[broker] memory: %w", err)
		}
		l.MemoryBytes = bytes
	}
	if c := f.Broker.Cores; c != nil {
		if *c == "" {
			return errors.New("[broker] cores: a list such as 0-1 is wanted; without the key a broker has all")
		}
		l.Cores = *c
	}
	if err := l.Validate(); err != nil {
		return fmt.Errorf("[broker] %w", err)
	}
	return nil
}

func (l linkTable) build(t *Testbed) error {
	var errs []error
	if t.Kind == host.Local {
		t.Link.RateMbps = 0
	}
	if l.Rate != nil {
		mbps, err := link.ParseRate(*l.Rate)
		if t.Kind == host.Local && mbps != 0 {
			err = errors.New("rate: a testbed of kind \"local\" has no link")
		}
		errs = append(errs, err)
		t.Link.RateMbps = mbps
	}
	if t.Kind != host.Namespace && (l.Congestion != nil || l.Prefix != nil) {
		errs = append(errs, errors.New("congestion, prefix: only for the link that testbed makes, of kind \"netns\""))
	}
	set(&t.Link.Congestion, l.Congestion)
	set(&t.Link.PrefixBits, l.Prefix)
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("[link] %w", err)
	}
	return nil
}

func (h hostTable) build(kind host.Kind, folder, name string, c *host.Config, end *link.End) error {
	c.Name, c.Kind = name, kind
	set(&c.Name, h.Name)
	set(&c.Addr, h.Address)
	set(&c.Dir, h.Dir)
	if kind != host.Namespace && (h.Namespace != nil || h.Device != nil) {
		return errors.New("namespace, device: only for testbeds of kind \"netns\"")
	}
	if kind != host.SSH && (h.SSH != nil || h.Port != nil || h.Identity != nil || h.Config != nil) {
		return errors.New("ssh, port, identity, config: only for testbeds of kind \"ssh\"")
	}
	switch kind {
	case host.Namespace:
		set(&end.Namespace, h.Namespace)
		set(&end.Device, h.Device)
		set(&end.Addr, h.Address)
		c.Namespace, c.Addr = end.Namespace, end.Addr
	case host.SSH:
		return h.buildSSH(folder, name, c)
	}
	return nil
}

func (h hostTable) buildSSH(folder, name string, c *host.Config) error {
	if h.Address == nil {
		return errors.New("address is missing: the host's IP address on the test network")
	}
	if h.SSH == nil {
		if name != "client" {
			return errors.New("ssh is missing: how the host is reached, such as \"user@192.168.7.2\"")
		}
		if h.Port != nil || h.Identity != nil || h.Config != nil {
			return errors.New("port, identity, config: without ssh, the client host is this machine: remove these keys too")
		}
		c.Kind = host.Local
		return nil
	}
	c.SSH.Target = *h.SSH
	set(&c.SSH.Port, h.Port)
	var err error
	if c.SSH.Identity, err = filePath(folder, h.Identity); err != nil {
		return err
	}
	c.SSH.ConfigFile, err = filePath(folder, h.Config)
	return err
}

// set overwrites a default with what the file says.
func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// filePath resolves a path of a testbed file: "~/" is the user's home, and a
// relative path starts at the file's folder.
func filePath(folder string, p *string) (string, error) {
	if p == nil {
		return "", nil
	}
	if rest, ok := strings.CutPrefix(*p, "~/"); ok {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	if filepath.IsAbs(*p) || *p == "" {
		return *p, nil
	}
	return filepath.Abs(filepath.Join(folder, *p))
}
