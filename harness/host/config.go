package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// DefaultDir is the folder below which a host keeps its runs' data when its
// configuration names none. It is on a disk on common systems, where /tmp may
// be memory.
const DefaultDir = "/var/tmp/kafkalab"

// Config says what a host is and how it is reached.
type Config struct {
	Name string // what messages and results call it
	Kind Kind
	// Addr is the IP address on the test network. Local only: empty means
	// 127.0.0.1.
	Addr string
	// Dir is the folder on the host below which each opened host makes a
	// folder of its own, removed with Close. Empty: DefaultDir. It must be on
	// the disk to be measured.
	Dir string
	// BinDir is the folder on this machine that holds the project's programs.
	// Empty: the folder of the running program.
	BinDir string

	Namespace string    // Namespace only: its name
	SSH       SSHConfig // SSH only
}

// SSHConfig is how a host is reached by the system's ssh, on top of the user's
// own settings.
type SSHConfig struct {
	Target     string // host, user@host, or a Host of the user's configuration
	Port       int    // 0: as ssh finds it
	Identity   string // file with the private key; empty: as ssh finds it
	ConfigFile string // instead of the user's own; empty: the user's own
}

// namePattern is what a host's or a namespace's name may be: it becomes part
// of file names and command lines.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// Validate says what is wrong with the configuration, without touching the
// host.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !namePattern.MatchString(c.Name) {
		bad("name %q: letters, digits, '.', '_' and '-' are wanted, 63 at most", c.Name)
	}
	if c.Addr != "" || c.Kind != Local {
		if a, err := netip.ParseAddr(c.Addr); err != nil || a.IsUnspecified() || a.IsMulticast() {
			bad("address %q: the IP address on the test network is wanted, such as 192.168.7.1", c.Addr)
		}
	}
	if c.Dir != "" && (!filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) == "/" || strings.ContainsAny(c.Dir, "\n\x00")) {
		bad("dir %q: an absolute path of a folder is wanted, such as %s", c.Dir, DefaultDir)
	}
	if c.Kind != Namespace && c.Namespace != "" {
		bad("namespace %q: only a host of kind %q has one", c.Namespace, Namespace)
	}
	if c.Kind != SSH && c.SSH != (SSHConfig{}) {
		bad("ssh settings: only a host of kind %q has them", SSH)
	}
	switch c.Kind {
	case Local:
	case Namespace:
		if !namePattern.MatchString(c.Namespace) {
			bad("namespace %q: letters, digits, '.', '_' and '-' are wanted, 63 at most", c.Namespace)
		}
	case SSH:
		errs = append(errs, c.SSH.validate()...)
	default:
		bad("kind %q: one of %s, %s, %s is wanted", c.Kind, Local, Namespace, SSH)
	}
	if len(errs) > 0 {
		return fmt.Errorf("host %q: %w", c.Name, errors.Join(errs...))
	}
	return nil
}

func (s SSHConfig) validate() (errs []error) {
	// A target that begins with a dash would be read as an option of ssh.
	if s.Target == "" || strings.HasPrefix(s.Target, "-") || strings.ContainsAny(s.Target, " \t\n\x00") {
		errs = append(errs, fmt.Errorf("ssh target %q: a host or user@host is wanted", s.Target))
	}
	if s.Port < 0 || s.Port > 65535 {
		errs = append(errs, fmt.Errorf("ssh port %d: 1 to 65535 is wanted, or 0 for ssh's own choice", s.Port))
	}
	for _, f := range []struct{ what, path string }{{"identity", s.Identity}, {"config file", s.ConfigFile}} {
		if f.path == "" {
			continue
		}
		if _, err := os.Stat(f.path); err != nil {
			errs = append(errs, fmt.Errorf("ssh %s: %w", f.what, err))
		}
	}
	return errs
}

// withDefaults fills in what was left open.
func (c Config) withDefaults() Config {
	if c.Addr == "" {
		c.Addr = "127.0.0.1"
	}
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	c.Dir = filepath.Clean(c.Dir)
	return c
}

// Open opens a host: it makes sure that it can be reached and makes a folder
// there for this run. The caller closes it. ctx bounds the opening only.
func Open(ctx context.Context, c Config) (Host, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	var r reach
	switch c.Kind {
	case Local:
		r = &localReach{}
	case Namespace:
		if err := checkNamespace(c.Namespace); err != nil {
			return nil, fmt.Errorf("host %s: %w", c.Name, err)
		}
		r = &localReach{namespace: c.Namespace}
	case SSH:
		s, err := newSSHReach(ctx, c)
		if err != nil {
			return nil, err
		}
		r = s
	}
	m := &machine{cfg: c, reach: r}
	if err := m.open(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return m, nil
}

// checkNamespace says whether this process can run programs in the namespace.
func checkNamespace(name string) error {
	if os.Geteuid() != 0 {
		return errors.New("running programs in a network namespace needs root rights: call it with sudo")
	}
	for _, dir := range []string{"/run/netns", "/var/run/netns"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("there is no network namespace %s: \"testbed up\" makes it", name)
}
