package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
)

// flagSet is a command's flags together with its help.
type flagSet struct {
	*pflag.FlagSet
	required []string
}

// newFlags returns the flags of a command. The help that --help prints begins
// with synopsis and about, and ends with the examples.
func newFlags(std stdio, synopsis, about, examples string) *flagSet {
	name := strings.Fields(synopsis)[1]
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SortFlags = false
	fs.SetOutput(io.Discard)
	fs.Usage = func() {
		fmt.Fprintf(std.Out, "Usage:\n  %s\n\n%s\n\nFlags:\n%s\nExamples:\n%s", synopsis, about, fs.FlagUsages(), examples)
	}
	return &flagSet{FlagSet: fs}
}

// require names flags that must be given.
func (f *flagSet) require(names ...string) { f.required = append(f.required, names...) }

// parse parses args, of which nargs (at least min, at most max) may be other
// than flags. Its errors are usage errors.
func (f *flagSet) parse(args []string, min, max int) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	for _, name := range f.required {
		if !f.Changed(name) {
			return usagef("--%s is missing", name)
		}
	}
	switch n := f.NArg(); {
	case n < min:
		return usagef("an argument is missing")
	case n > max:
		return usagef("unexpected argument %q%s", f.Arg(max), f.switchHint(args, f.Arg(max)))
	}
	return nil
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
