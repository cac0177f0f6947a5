package main

import (
	"context"
	"errors"
	"sync"

	"kafkalab/harness/host"
	"kafkalab/harness/scenario"
)

// openHosts opens both hosts of a testbed. What was opened is closed by the
// function returned, or here on an error.
func openHosts(ctx context.Context, tb scenario.Testbed) (client, broker host.Host, closeBoth func() error, err error) {
	// Both at once: over ssh each takes a while.
	var clientErr, brokerErr error
	var wg sync.WaitGroup
	wg.Go(func() { client, clientErr = host.Open(ctx, tb.ClientHost) })
	wg.Go(func() { broker, brokerErr = host.Open(ctx, tb.BrokerHost) })
	wg.Wait()
	closeBoth = func() error {
		var errs [2]error
		for i, h := range []host.Host{client, broker} {
			if h != nil {
				wg.Go(func() { errs[i] = closeHost(ctx, h) })
			}
		}
		wg.Wait()
		return errors.Join(errs[:]...)
	}
	if err := errors.Join(clientErr, brokerErr); err != nil {
		return nil, nil, nil, errors.Join(err, closeBoth())
	}
	return client, broker, closeBoth, nil
}
