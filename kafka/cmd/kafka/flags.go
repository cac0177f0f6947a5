package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// flagSet is a command's flags together with its help.
type flagSet struct {
	*pflag.FlagSet
	required []string
	actions  []string          // of which the first argument is one; none: the command has but one
	noFlags  map[string]string // what to write instead of flags that there are none of
	keys     map[string]string // by flag: the key of a file that has set it, and where
}

// newFlags returns the flags of a command. The help that --help prints begins
// with synopsis and about, and ends with the examples.
func newFlags(std stdio, synopsis, about, examples string) *flagSet {
	name := strings.Fields(synopsis)[1]
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() {
		flags := fs.FlagUsages()
		if flags == "" {
			flags = fmt.Sprintf("  those of an action: \"kafka %s ACTION --help\"\n", name)
		}
		fmt.Fprintf(std.Out, "Usage:\n  %s\n\n%s\n\nFlags:\n%s\nExamples:\n%s", synopsis, about, flags, examples)
	}
	return &flagSet{FlagSet: fs}
}

// require names flags that must be given.
func (f *flagSet) require(names ...string) { f.required = append(f.required, names...) }

// oneOf names the actions of a command, of which its first argument is one.
func (f *flagSet) oneOf(actions ...string) { f.actions = actions }

// notFlag says what to write instead of a flag that there is none of, as others
// might expect it.
func (f *flagSet) notFlag(name, instead string) {
	if f.noFlags == nil {
		f.noFlags = map[string]string{}
	}
	f.noFlags[name] = instead
}

// action checks the first argument, before anything else is asked for.
func (f *flagSet) action() error {
	switch {
	case len(f.actions) == 0 || slices.Contains(f.actions, f.Arg(0)):
		return nil
	case f.NArg() == 0:
		return usagef("say what is to be done, first: %s", strings.Join(f.actions, ", "))
	case len(f.actions) == 2:
		return usagef("%q is neither %s nor %s", f.Arg(0), f.actions[0], f.actions[1])
	}
	return usagef("%q is none of %s", f.Arg(0), strings.Join(f.actions, ", "))
}

// parse parses args, of which nargs (at least min, at most max) may be other
// than flags. Its errors are usage errors.
func (f *flagSet) parse(args []string, min, max int) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		var unknown *pflag.NotExistError
		if errors.As(err, &unknown) && f.noFlags[unknown.GetSpecifiedName()] != "" {
			return usagef("%w: %s", err, f.noFlags[unknown.GetSpecifiedName()])
		}
		if meant := f.meant(err); meant != "" {
			return usagef("%w: is --%s meant?", err, meant)
		}
		return usageError{err}
	}
	if err := f.action(); err != nil {
		return err
	}
	for _, name := range f.required {
		if !f.Changed(name) {
			return usagef("--%s is missing", name)
		}
	}
	switch n := f.NArg(); {
	case n < min:
		return usagef("%s: an argument is missing, see \"Usage\" in the help", strings.Join(f.Args(), " "))
	case n > max:
		return usagef("unexpected argument %q%s", f.Arg(max), f.switchHint(args, f.Arg(max)))
	}
	return nil
}

// meant returns the flag that is likely to be meant by one that there is none of, or
// "".
func (f *flagSet) meant(err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return ""
	}
	name := unknown.GetSpecifiedName()
	if short := unknown.GetSpecifiedShortnames(); short != "" {
		// -topic is taken for -t -o -p -i -c.
		name, _, _ = strings.Cut(short, "=")
	}
	var names []string
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return likely(name, names)
}

// likely returns the one of names that is likely to be meant by name, as few letters
// are to be changed, or "".
func likely(name string, names []string) string {
	if name == "" || len(name) > 80 || len(names) == 0 {
		return ""
	}
	near := nearest(name, names)
	if editDistance(name, near) > max(1, len(name)/4) {
		return ""
	}
	return near
}

// nearest returns the one of names that takes the fewest changes of a letter to
// reach.
func nearest(name string, names []string) string {
	return slices.MinFunc(names, func(a, b string) int { return editDistance(name, a) - editDistance(name, b) })
}

// editDistance is Levenshtein's.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// switchHint says how a flag that is on or off takes a value, if arg seems to be
// meant as one.
func (f *flagSet) switchHint(args []string, arg string) string {
	if _, err := strconv.ParseBool(arg); err != nil {
		return ""
	}
	for i, name := range args[:len(args)-1] {
		flag := f.Lookup(strings.TrimPrefix(name, "--"))
		if strings.HasPrefix(name, "--") && args[i+1] == arg && flag != nil && flag.Value.Type() == "bool" {
			return fmt.Sprintf(": write %s=%s", name, arg)
		}
	}
	return ""
}

// brokerList reads the value of --broker-list: HOST:PORT, several divided by
// commas. 0.7's ID:HOST:PORT is understood too; the id is not needed.
func brokerList(value string) ([]string, error) {
	var brokers []string
	for _, b := range strings.Split(value, ",") {
		b = strings.TrimSpace(b)
		if id, rest, ok := strings.Cut(b, ":"); ok && strings.Contains(rest, ":") && !strings.HasPrefix(b, "[") {
			if _, err := strconv.ParseUint(id, 10, 31); err == nil {
				b = rest
			}
		}
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" {
			return nil, usagef("--broker-list: %q is not HOST:PORT, such as 127.0.0.1:9092", b)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, usagef("--broker-list: port %q of %q is not a number from 1 to 65535", port, b)
		}
		brokers = append(brokers, b)
	}
	return brokers, nil
}

// checkListen checks the value of a flag for an address to serve on. No host
// stands for all interfaces, port 0 for a free one.
func checkListen(flag, value string) error {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return usagef("--%s: %q is not HOST:PORT, such as 127.0.0.1:9092", flag, value)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usagef("--%s: port %q of %q is not a number from 0 to 65535", flag, port, value)
	}
	return nil
}

// Both ends of a log have two names in Kafka 0.7: those of a reset are smallest and
// largest, those of a time earliest and latest. Either is taken for the other.
var endsOfLog = [][2]string{{"earliest", "smallest"}, {"latest", "largest"}}

// endOfTime returns value with the name that a time has for an end.
func endOfTime(value string) string {
	for _, end := range endsOfLog {
		if value == end[1] {
			return end[0]
		}
	}
	return value
}

// endOfReset returns value with the name that a reset has for an end.
func endOfReset(value string) string {
	for _, end := range endsOfLog {
		if value == end[0] {
			return end[1]
		}
	}
	return value
}

// byteSize is a flag for a number of bytes: 1000, 64KiB, 1GiB, 10MB.
type byteSize int64

var byteUnits = []struct {
	suffix string
	factor int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

func (b *byteSize) Set(s string) error {
	number, factor := s, int64(1)
	for _, u := range byteUnits {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<63-1)/factor {
		return fmt.Errorf("%q is not a size such as 1000, 64KiB or 1GiB", s)
	}
	*b = byteSize(n * factor)
	return nil
}

func (b *byteSize) String() string {
	n := int64(*b)
	for i := 3; i >= 0; i-- {
		if u := byteUnits[i]; n >= u.factor && n%u.factor == 0 {
			return strconv.FormatInt(n/u.factor, 10) + u.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

func (b *byteSize) Type() string { return "size" }

// sizeFlag adds a flag for a number of bytes.
func (f *flagSet) sizeFlag(name string, def int64, usage string) *byteSize {
	b := byteSize(def)
	f.Var(&b, name, usage)
	return &b
}

// count writes a number of things: "1 message", "2 messages".
func count[N int | int32 | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// writeJSON writes v as one line of JSON.
func writeJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// table writes rows in columns, the first row being the header.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}
