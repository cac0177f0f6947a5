package env

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// What a fact says when there is nothing, or nobody knows.
const (
	notInstalled = "not installed"
	notKnown     = "not known"
)

// Describe returns what there is to know of a host: of its processor, memory,
// system, disk below Dir, network at Addr, and of the versions of what is
// installed. Nothing in it names the machine but the name in the testbed file.
func Describe(ctx context.Context, h host.Host) (resultfile.Host, error) {
	s, err := collect(ctx, h)
	if err != nil {
		return resultfile.Host{}, err
	}
	return resultfile.Host{Name: h.Name(), Facts: s.facts()}, nil
}

// facts lists the facts in the order in which they are shown.
func (s sections) facts() []resultfile.Fact {
	var out []resultfile.Fact
	add := func(name, value string) {
		if value == "" {
			value = notKnown
		}
		out = append(out, resultfile.Fact{Name: name, Value: value})
	}
	add("processor", s.processor())
	add("cores", s.cores())
	add("clock", s.clock())
	add("memory", s.memory())
	add("swap", s.swap())
	add("virtualisation", s.virtualisation())
	add("system", value(s["os"], "PRETTY_NAME", "="))
	add("kernel", s["uname"])
	d := s.disk()
	add("file system", d.fileSystem)
	add("disk", d.device)
	add("RAID", d.raid)
	add("network device", s.device())
	add("MTU", word(s["link"], "mtu"))
	add("network offloads", s.offloads())
	add("network queue", s.queue())
	add("TCP congestion control", s["congestion"])
	add("Go of the programs", runtime.Version())
	add("Java", orNotInstalled(quoted(firstLine(s["java"]), "version")))
	add("Erlang", orNotInstalled(firstLine(s["erlang"])))
	add("RabbitMQ", s.packageVersion("rabbitmq-server"))
	add("ActiveMQ", s.packageVersion("activemq"))
	add("NATS", s.packageVersion("nats-server"))
	add("ssh", orNotInstalled(sshVersion(s["ssh"])))
	return out
}

func (s sections) processor() string {
	if model := value(s["cpuinfo"], "model name", ":"); model != "" {
		return model
	}
	// ARM kernels name only the numbers of maker and part.
	if maker := value(s["cpuinfo"], "CPU implementer", ":"); maker != "" {
		return fmt.Sprintf("%s, implementer %s, part %s", s["machine"], maker, value(s["cpuinfo"], "CPU part", ":"))
	}
	return s["machine"]
}

// cores counts the processors that the system sees, hardware threads included.
func (s sections) cores() string {
	n := 0
	for line := range strings.Lines(s["cpuinfo"]) {
		if name, _, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "processor" {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// clock is the frequency of the first core at the moment.
func (s sections) clock() string {
	mhz, err := strconv.ParseFloat(value(s["cpuinfo"], "cpu MHz", ":"), 64)
	if err != nil {
		return ""
	}
	text := fmt.Sprintf("%.0f MHz", mhz)
	if g := s["governor"]; g != "" {
		text += ", governor " + g
	}
	return text
}

func (s sections) memory() string {
	kib, err := meminfo(s["meminfo"], "MemTotal")
	if err != nil {
		return ""
	}
	return gib(kib * 1024)
}

// meminfo reads a line of /proc/meminfo, in KiB.
func meminfo(text, name string) (int64, error) {
	return strconv.ParseInt(strings.TrimSuffix(value(text, name, ":"), " kB"), 10, 64)
}

func gib(bytes int64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }

func (s sections) swap() string {
	lines := strings.Split(s["swaps"], "\n")
	if len(lines) < 2 {
		return "none"
	}
	var total int64
	for _, line := range lines[1:] {
		if f := strings.Fields(line); len(f) >= 3 {
			kib, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				return ""
			}
			total += kib * 1024
		}
	}
	return gib(total)
}

func (s sections) virtualisation() string {
	kind := firstLine(s["virt"])
	vendor := strings.Join(strings.Fields(strings.ReplaceAll(s["vendor"], "\n", " ")), " ")
	hypervisor := strings.Contains(" "+strings.ReplaceAll(value(s["cpuinfo"], "flags", ":"), "\n", " ")+" ", " hypervisor ")
	switch {
	case kind != "" && kind != "none" && vendor != "":
		return kind + " (" + vendor + ")"
	case kind != "" && kind != "none":
		return kind
	case hypervisor && vendor != "":
		return "a virtual machine (" + vendor + ")"
	case hypervisor:
		return "a virtual machine"
	case kind == "none" && vendor != "":
		return "none (" + vendor + ")"
	case kind == "none":
		return "none"
	}
	return ""
}

func (s sections) packageVersion(name string) string {
	for line := range strings.Lines(s["packages"]) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == name && f[2] == "installed" {
			return f[1]
		}
	}
	return notInstalled
}

func orNotInstalled(v string) string {
	if v == "" {
		return notInstalled
	}
	return v
}

func sshVersion(text string) string {
	line := firstLine(text)
	if !strings.HasPrefix(line, "OpenSSH") {
		return ""
	}
	version, _, _ := strings.Cut(line, ",")
	return version
}

// value returns what follows "name<sep>" on the first line that begins with
// it, without quotes.
func value(text, name, sep string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, sep); ok && strings.TrimSpace(k) == name {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return ""
}

// oneLine puts a text of several lines into one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(line)
}

// word returns the word that follows a word.
func word(text, after string) string {
	f := strings.Fields(text)
	for i := range len(f) - 1 {
		if f[i] == after {
			return f[i+1]
		}
	}
	return ""
}

// quoted returns what stands in quotes after a word.
func quoted(line, after string) string {
	return strings.Trim(word(line, after), `"`)
}
