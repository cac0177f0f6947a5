package plots

import (
	"strconv"
	"strings"

	"kafkalab/results/resultfile"
)

// clause says in words what a class of a row means, of one system and of
// several.
type clause struct{ one, several string }

func (c clause) of(n int) string {
	if n == 1 {
		return c.one
	}
	return c.several
}

// both is a clause whose verb is alike for one and for several but for its s.
func both(verb, rest string) clause { return clause{verb + "s " + rest, verb + " " + rest} }

// comparedRow is a row of the contract that systems are compared by.
type comparedRow struct {
	name string
	// asked says for which work the row matters; nil: for all.
	asked func(resultfile.Work) bool
	// limits says that the physical limit is compared too: it is not a broker,
	// but runs on the same machine.
	limits bool
	words  func(class string) clause
}

func produces(w resultfile.Work) bool { return w != resultfile.Consume }
func consumes(w resultfile.Work) bool { return w != resultfile.Produce && w != resultfile.Crash }

var comparedRows = []comparedRow{
	{name: "durability", words: oneOf(map[string]clause{
		"persistent": both("store", "messages on the disk (persistent)"),
		"transient":  both("keep", "messages in memory only (transient)"),
	})},
	{name: "flush", words: flushWords},
	{name: "producer acknowledgement", asked: produces, words: oneOf(map[string]clause{
		"none":     both("acknowledge", "nothing to the producer"),
		"received": both("acknowledge", "messages when they were received"),
		"appended": both("acknowledge", "messages when they were written"),
		"flushed":  both("acknowledge", "messages when they were on the disk"),
	})},
	{name: "consumer acknowledgement", asked: consumes, words: oneOf(map[string]clause{
		"none":      both("leave", "it to the consumer to keep its place"),
		"automatic": both("count", "messages as consumed when they were sent"),
		"each":      {"has each message acknowledged by the consumer", "have each message acknowledged by the consumer"},
		"bulk":      {"has many messages acknowledged at once by the consumer", "have many messages acknowledged at once by the consumer"},
	})},
	{name: "prefetch bytes", asked: consumes, words: prefetchWords},
	{name: "connections", words: func(class string) clause {
		noun := "connections"
		if class == "1" {
			noun = "connection"
		}
		return both("use", class+" "+noun)
	}},
	{name: "cores", limits: true, words: func(class string) clause {
		return clause{"may use the cores " + class, "may use the cores " + class}
	}},
	{name: "memory limit", limits: true, words: func(class string) clause {
		bytes, err := strconv.ParseInt(class, 10, 64)
		if err != nil {
			return clause{"is held to no memory", "are held to no memory"}
		}
		size := Show(ResidentPeak, float64(bytes)) + " of memory"
		return clause{"is held to " + size, "are held to " + size}
	}},
	{name: "disk", limits: true, words: func(class string) clause { return both("lie", "on "+class) }},
}

// oneOf is words for a few classes. One that it does not know stands as it is.
func oneOf(known map[string]clause) func(string) clause {
	return func(class string) clause {
		if c, ok := known[class]; ok {
			return c
		}
		return clause{"has " + class, "have " + class}
	}
}

func flushWords(class string) clause {
	switch {
	case class == "os":
		return both("leave", "flushing to the kernel")
	case class == "each":
		return clause{"flushes for every message, or for all that gathered meanwhile", "flush for every message, or for all that gathered meanwhile"}
	}
	var parts []string
	for part := range strings.SplitSeq(class, ", ") {
		kind, value, _ := strings.Cut(part, " ")
		if kind == "count" {
			value += " messages"
		}
		parts = append(parts, "every "+value)
	}
	return clause{"flushes " + strings.Join(parts, " or "), "flush " + strings.Join(parts, " or ")}
}

func prefetchWords(class string) clause {
	bytes, err := strconv.ParseInt(class, 10, 64)
	if err != nil {
		return both("send", "ahead without a bound but TCP's")
	}
	return both("send", "up to "+number(float64(bytes))+" B ahead")
}
