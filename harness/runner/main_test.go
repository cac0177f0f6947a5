package runner

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"kafkalab/harness/driver"
	"kafkalab/harness/measure"
	"kafkalab/results/resultfile"
)

// The test program is its own client and sampler process, as the real testbed
// program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "client":
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
			defer stop()
			if err := RunClient(ctx, os.Stdin, os.Stdout, drivers()); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			os.Exit(0)
		case "sample":
			os.Exit(sample(os.Args[2:]))
		case "drop-cache":
			left, err := measure.DropCache(context.Background(), os.Args[2])
			if err = errors.Join(err, json.NewEncoder(os.Stdout).Encode(left)); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	// Parallel tests wait most of the time. A command line that says otherwise is
	// read after this.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// sample is the sampler, which reads no metrics: with --metrics-url it says that
// collecting has taken a second more in each sample, and that the server has a
// mebibyte.
func sample(args []string) int {
	flags := pflag.NewFlagSet("sample", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	var cfg measure.SamplerConfig
	flags.IntSliceVar(&cfg.PIDs, "pids", nil, "")
	url := flags.String("metrics-url", "", "")
	if err := flags.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	s, err := measure.NewSampler(cfg)
	if err == nil {
		out, gc := json.NewEncoder(os.Stdout), 0.0
		err = s.Run(ctx, 100*time.Millisecond, func(sample resultfile.Sample) error {
			if *url != "" {
				sample.ProcessResidentBytes = 1 << 20
				sample.GCSeconds = gc
				gc++
			}
			return out.Encode(s.Stamp(sample))
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func drivers() *driver.Table {
	return driver.NewTable(driver.NewNull(), standIn{driver.NewNull()}, crasher{driver.NewNull()}, gatherer{optioned{driver.NewNull()}}, piper{optioned{driver.NewNull()}})
}
