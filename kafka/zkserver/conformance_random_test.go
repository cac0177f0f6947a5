package zkserver_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"kafkalab/kafka/kafkatest/zktest"
)

// Both servers answer the same to the same requests of three clients on a few
// nodes, drawn at random. KAFKALAB_SEED repeats a run.
func TestConformanceRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("KAFKALAB_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("KAFKALAB_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("KAFKALAB_SEED=%d", seed)
	clusters := make(map[zktest.Kind]*zktest.Cluster)
	for _, kind := range []zktest.Kind{zktest.Embedded, zktest.Real} {
		clusters[kind] = zktest.Start(t, kind)
	}
	const scripts, commands = 8, 300
	for i := range scripts {
		script := (&drawer{rng: rand.New(rand.NewPCG(seed, uint64(i)))}).script(commands)
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			embedded := playScript(t, clusters[zktest.Embedded], script)
			real := playScript(t, clusters[zktest.Real], script)
			if d := difference(real, embedded); d != "" {
				t.Errorf("want is what the real server answers\n%s\nall:\n%s", d, real)
			}
		})
	}
}

// drawer draws scripts.
type drawer struct {
	rng   *rand.Rand
	lines []string
}

func (d *drawer) say(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

func (d *drawer) of(words ...string) string { return words[d.rng.IntN(len(words))] }

func (d *drawer) path() string {
	return d.of("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/1", "/a/x/2", "/b/x/1", "/")
}

func (d *drawer) version() string { return d.of("-1", "-1", "-1", "0", "1", "2") }

func (d *drawer) script(commands int) string {
	clients := []string{"a", "b", "c"}
	for _, c := range clients {
		d.say("%s open", c)
	}
	for range commands {
		c := d.of(clients...)
		switch d.rng.IntN(24) {
		case 0:
			d.end(c, clients)
		case 1:
			d.again(c)
		default:
			d.say("%s %s", c, d.request())
		}
	}
	for _, c := range clients {
		d.say("%s settle", c)
	}
	return strings.Join(d.lines, "\n") + "\n"
}

// end closes a session, or has the server do it, and the client has another one.
func (d *drawer) end(c string, clients []string) {
	if d.rng.IntN(2) == 0 {
		d.say("%s leave", c)
	} else {
		d.say("%s settle", c) // events may or may not come before the end
		d.say("%s expire", c)
	}
	for _, other := range clients {
		if other != c {
			d.say("%s settle", other)
		}
	}
	d.say("%s open", c)
}

// again makes another connection of the session, and sets watches as a client does
// that has seen some change last.
func (d *drawer) again(c string) {
	d.say("%s settle", c)
	d.say("%s reopen", c)
	line := fmt.Sprintf("%s setwatches %d", c, d.rng.IntN(200))
	kinds := []string{"data", "exist", "child"}
	if d.rng.IntN(3) == 0 {
		line = fmt.Sprintf("%s setwatches2 %d", c, d.rng.IntN(200))
		kinds = append(kinds, "persistent", "recursive")
	}
	for _, kind := range kinds {
		line += " " + kind
		for _, i := range d.rng.Perm(4)[:d.rng.IntN(4)] {
			line += " " + []string{"/a", "/a/x", "/b", "/b/x/1"}[i]
		}
	}
	d.say("%s", line)
}

func (d *drawer) request() string {
	switch d.rng.IntN(12) {
	case 0, 1, 2:
		return d.of("exists", "get", "children", "children2", "getacl", "existsw", "getw", "childrenw", "children2w") + " " + d.path()
	case 3:
		return d.of("sync /", "ping", "getephemerals /", "childrennumber /a")
	case 4:
		ops := make([]string, 1+d.rng.IntN(4))
		for i := range ops {
			ops[i] = d.write()
			if d.rng.IntN(3) == 0 {
				ops[i] = "check " + d.path() + " " + d.version()
			}
		}
		return "multi " + strings.Join(ops, " ; ")
	case 5:
		return d.of("setacl "+d.path()+" "+d.version(), d.watch())
	default:
		return d.write()
	}
}

// watch adds a watch that stays, or takes one back.
func (d *drawer) watch() string {
	if d.rng.IntN(2) == 0 {
		return "addwatch " + d.path() + " " + d.of("0", "1")
	}
	return "removewatches " + d.path() + " " + d.of("1", "2", "3")
}

func (d *drawer) write() string {
	switch d.rng.IntN(8) {
	case 0, 1, 2, 3:
		return d.of("create", "create", "create2") + " " + d.path() + " " + d.of("x", "yy", `""`, "nil") + " " + d.of("persistent", "persistent", "persistent", "ephemeral", "sequential", "ephemeral-sequential")
	case 4, 5:
		return "set " + d.path() + " " + d.of("x", "yy", `""`) + " " + d.version()
	default:
		return "delete " + d.path() + " " + d.version()
	}
}
