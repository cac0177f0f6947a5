package disktest

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/pflag"

	"kafkalab/kafka/broker"
	"kafkalab/kafka/internal/vfs"
	"kafkalab/kafka/storage"
)

// lyingVariable, when set, makes this program, called with "broker" and flags,
// a broker whose flushes do nothing.
const lyingVariable = "KAFKALAB_TEST_LYING_BROKER"

// lyingFS is a file system whose syncs do nothing and succeed.
type lyingFS struct{ vfs.FS }

type lyingFile struct{ vfs.File }

func (lyingFile) Sync() error                             { return nil }
func (lyingFS) SyncDir(string) error                      { return nil }
func (f lyingFS) Create(name string) (vfs.File, error)    { return lying(f.FS.Create(name)) }
func (f lyingFS) Open(name string) (vfs.File, error)      { return lying(f.FS.Open(name)) }
func (f lyingFS) OpenWrite(name string) (vfs.File, error) { return lying(f.FS.OpenWrite(name)) }

func lying(file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return lyingFile{file}, nil
}

// runLyingBroker takes those flags of "kafka broker" that these tests use. It
// returns when the broker fails; else it runs until it is killed.
func runLyingBroker(args []string) error {
	cfg := broker.DefaultConfig()
	cfg.Storage.FS = lyingFS{vfs.OS()}
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	flags := pflag.NewFlagSet("broker", pflag.ContinueOnError)
	flags.StringVar(&cfg.LogDir, "log-dir", "", "")
	flags.StringVar(&cfg.Listen, "listen", "", "")
	flags.Int64Var(&cfg.Storage.SegmentBytes, "segment-size", 0, "")
	flags.IntVar(&cfg.Storage.FlushMessages, "flush-messages", 0, "")
	flags.DurationVar(&cfg.Storage.FlushInterval, "flush-interval", 0, "")
	flags.DurationVar(&cfg.Storage.CleanupInterval, "cleanup-interval", 0, "")
	flags.Int64Var(&cfg.Storage.RetentionBytes, "retention-size", 0, "")
	visible := flags.String("visible", "flushed", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *visible == "appended" {
		cfg.Storage.Visible = storage.VisibleAppended
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := broker.Start(ctx, cfg)
	if err != nil {
		return err
	}
	<-s.Done()
	return s.Err()
}
