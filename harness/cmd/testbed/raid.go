package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"kafkalab/harness/host"
	"kafkalab/harness/raid"
	"kafkalab/harness/scenario"
)

// raidFlag defines the flag that puts the broker's data folder on a RAID 10.
func raidFlag(flags *pflag.FlagSet, what string) *bool { return flags.Bool("raid10", false, what) }

// raidOf is the RAID 10 of an emulated testbed, made or not.
func raidOf(tb scenario.Testbed) raid.Config {
	dir := tb.BrokerHost.Dir
	if dir == "" {
		dir = host.DefaultDir
	}
	return raid.For(dir)
}

// needsEmulated refuses a RAID 10 for hosts that are not ours to change.
func needsEmulated(tb scenario.Testbed) error {
	if tb.Kind == host.Namespace {
		return nil
	}
	return fmt.Errorf("--raid10 makes a RAID 10 of files for the two emulated hosts; this testbed is of kind %q: let the dir of its broker host lie on an array of your own, which is found and recorded", tb.Kind)
}

// onRAID moves the broker host's data folder to the RAID 10 that "testbed up
// --raid10" has made.
func onRAID(tb *scenario.Testbed, upCommand string) error {
	if err := needsEmulated(*tb); err != nil {
		return err
	}
	c := raidOf(*tb)
	there, err := raid.Exists(c)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("there is no RAID 10 in %s: \"%s\" makes it", c.Dir, upCommand)
	}
	tb.BrokerHost.Dir = c.Data()
	return nil
}

// upWith is the command that makes the emulated hosts of a testbed file.
func upWith(file string, raid10 bool) string {
	words := []string{calledAs(), "up"}
	if file != "" {
		words = append(words, "--testbed", file)
	}
	if raid10 {
		words = append(words, "--raid10")
	}
	return strings.Join(words, " ")
}

// parseSize reads a number of bytes such as "6GiB", "512MiB" or "1000000".
func parseSize(text string) (int64, error) {
	digits, factor := text, int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}} {
		if d, ok := strings.CutSuffix(text, u.suffix); ok {
			digits, factor = d, u.bytes
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return 0, errors.New("a size such as 6GiB or 512MiB is wanted")
	}
	return n * factor, nil
}
