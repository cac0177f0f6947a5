package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/workload"
	"kafkalab/results/resultfile"
)

// Ceilings measures on this machine what the client half does when there is no
// system behind it: it sends to the null driver for the time d and receives
// what was sent for as long, with payloads of that size, and checks every
// message. That is the client process of an attempt in all but its own process.
// dir takes the null driver's folder, which is removed.
func Ceilings(ctx context.Context, dir string, payloadBytes int, d time.Duration) (_ []resultfile.Ceiling, err error) {
	store, err := os.MkdirTemp(dir, "ceiling-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(store)) }()
	null := driver.NewNull()
	spec := Spec{
		Driver: null.Name(), Target: driver.NullTarget(store), Work: resultfile.Produce, Queue: "ceiling",
		PayloadBytes: payloadBytes, RunID: 1<<63 + 1, Messages: workload.MaxSequences, Measured: true,
		Cap: d, VerifyLimit: time.Millisecond, Stall: DefaultStall,
	}
	var all []resultfile.Ceiling
	for _, work := range []resultfile.Work{resultfile.Produce, resultfile.Consume} {
		spec.Work = work
		r, err := clientHere(ctx, spec, null)
		if err != nil {
			return nil, fmt.Errorf("the harness's own rate, %s of %d bytes: %w", work, payloadBytes, err)
		}
		all = append(all, resultfile.Ceiling{Work: work, PayloadBytes: payloadBytes, MessagesPerSecond: float64(r.Messages) / r.Seconds})
		spec.Messages = r.Messages // the backlog
	}
	return all, nil
}

// clientHere runs a client in this process and lets it go on whenever it asks.
func clientHere(ctx context.Context, spec Spec, d driver.Driver) (Result, error) {
	in, toClient := io.Pipe()
	fromClient, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := RunClient(ctx, in, out, driver.NewTable(d))
		out.Close()
		ended <- err
	}()
	result, err := answer(json.NewEncoder(toClient), json.NewDecoder(fromClient), spec)
	// The client, should it still be there, ends with its input.
	toClient.Close()
	fromClient.Close()
	err = errors.Join(err, <-ended)
	switch {
	case err != nil:
		return result, err
	case result.Failure+result.Fault != "":
		return result, errors.New(result.Failure + result.Fault)
	case result.Messages <= 0 || result.Seconds <= 0:
		return result, fmt.Errorf("%d messages in %v s", result.Messages, result.Seconds)
	}
	return result, nil
}

// answer gives a client its specification and its leave to go on, and returns
// what it reports last.
func answer(to *json.Encoder, from *json.Decoder, spec Spec) (Result, error) {
	if err := to.Encode(spec); err != nil {
		return Result{}, err
	}
	for {
		var e Event
		if err := from.Decode(&e); err != nil {
			return Result{}, fmt.Errorf("the client ended without a result: %w", err)
		}
		if e.Result != nil {
			return *e.Result, nil
		}
		if e.Wait {
			if err := to.Encode("go"); err != nil {
				return Result{}, err
			}
		}
	}
}
