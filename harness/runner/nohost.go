package runner

import (
	"context"
	"errors"
	"os"

	"kafkalab/harness/host"
)

// errNoHost is what a driver finds that asks for more than its options say.
var errNoHost = errors.New("no host is open yet")

// noHost stands in for the broker host where a driver is only to read its
// options: it answers nothing.
type noHost struct{}

func (noHost) Name() string    { return "no host" }
func (noHost) Kind() host.Kind { return "" }
func (noHost) Addr() string    { return "" }
func (noHost) Dir() string     { return "" }

func (noHost) Start(context.Context, host.Command) (host.Process, error) { return nil, errNoHost }
func (noHost) Run(context.Context, ...string) ([]byte, error)            { return nil, errNoHost }
func (noHost) MkdirAll(context.Context, string) error                    { return errNoHost }
func (noHost) WriteFile(context.Context, string, []byte, os.FileMode) error {
	return errNoHost
}
func (noHost) ReadFile(context.Context, string) ([]byte, error)      { return nil, errNoHost }
func (noHost) RemoveAll(context.Context, string) error               { return errNoHost }
func (noHost) Fetch(context.Context, string, string) error           { return errNoHost }
func (noHost) AllocatedBytes(context.Context, string) (int64, error) { return 0, errNoHost }
func (noHost) FreeBytes(context.Context, string) (int64, error)      { return 0, errNoHost }
func (noHost) FreePort(context.Context) (int, error)                 { return 0, errNoHost }
func (noHost) Binary(context.Context, string) (string, error)        { return "", errNoHost }
func (noHost) Close(context.Context) error                           { return nil }
