package launch

import (
	"context"
	"errors"
	"slices"
	"sync"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Programs are several programs that are one server together.
type Programs struct {
	groups [][]*driver.Program // in the order in which they are stopped

	died     chan struct{}
	stopping chan struct{}
	watchers sync.WaitGroup
	stopOnce sync.Once
	stopErr  error
}

// Join makes a server of programs that run, in the order in which they are to be
// stopped: those of one group at once. Those that are nil are left out.
func Join(groups ...[]*driver.Program) *Programs {
	p := &Programs{died: make(chan struct{}), stopping: make(chan struct{})}
	var once sync.Once
	for _, group := range groups {
		group = slices.DeleteFunc(slices.Clone(group), func(x *driver.Program) bool { return x == nil })
		p.groups = append(p.groups, group)
		for _, x := range group {
			p.watchers.Go(func() {
				select {
				case <-x.Died():
					once.Do(func() { close(p.died) })
				case <-p.stopping:
				}
			})
		}
	}
	return p
}

// Died is closed when one of them has.
func (p *Programs) Died() <-chan struct{} { return p.died }

// Processes are those of all, in the order in which they are stopped.
func (p *Programs) Processes() []host.Process {
	var all []host.Process
	for _, x := range slices.Concat(p.groups...) {
		all = append(all, x.Processes()...)
	}
	return all
}

// Logs are those of all.
func (p *Programs) Logs() []string {
	var all []string
	for _, x := range slices.Concat(p.groups...) {
		all = append(all, x.Logs()...)
	}
	return all
}

// Stop ends one group after the other.
func (p *Programs) Stop(ctx context.Context) error {
	p.stopOnce.Do(func() {
		close(p.stopping)
		p.watchers.Wait()
		var errs []error
		for _, group := range p.groups {
			failed := make([]error, len(group))
			var wg sync.WaitGroup
			for i, x := range group {
				wg.Go(func() { failed[i] = x.Stop(ctx) })
			}
			wg.Wait()
			errs = append(errs, failed...)
		}
		p.stopErr = errors.Join(errs...)
	})
	return p.stopErr
}
