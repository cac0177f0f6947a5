package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"time"

	"kafkalab/harness/host"
)

const (
	// tolerance is how far the measured goodput may be from the wire's.
	tolerance = 0.05
	// measureTries is how often: a moment of other load on the machine is no
	// fault of the link, but a slow link stays slow.
	measureTries = 3
	// emulatedTries is how often where this machine itself makes the link and
	// whatever else runs on it takes from that.
	emulatedTries = 5
	// maxAnswerBytes bounds each of the two lines that a receiver writes.
	maxAnswerBytes = 4096
)

// Goodput measures for d what TCP gets from one host to the other, in 10^6
// bits a second, by the receiver's count. It starts "testbed goodput-receive"
// and "testbed goodput-send" there.
func Goodput(ctx context.Context, from, to host.Host, d time.Duration) (mbps float64, err error) {
	t, err := transfer(ctx, from, to, d)
	if err != nil {
		return 0, fmt.Errorf("measuring the link from %s to %s: %w", from.Name(), to.Name(), err)
	}
	return t.Mbps(), nil
}

func transfer(ctx context.Context, from, to host.Host, d time.Duration) (t Transfer, err error) {
	receiver, err := to.Binary(ctx, "testbed")
	if err != nil {
		return t, err
	}
	sender, err := from.Binary(ctx, "testbed")
	if err != nil {
		return t, err
	}
	ctx, cancel := context.WithTimeout(ctx, d+settle+2*transferWait)
	defer cancel()
	out := host.NewAnswers(2, maxAnswerBytes)
	var receiveErr, sendErr bytes.Buffer
	r, err := to.Start(ctx, host.Command{
		Name: "goodput-receive",
		Args: []string{receiver, "goodput-receive", "--listen", net.JoinHostPort(to.Addr(), "0"), "--duration", d.String()},
		Out:  out, Err: &receiveErr,
	})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, r.Stop(ctx, 0)) }()
	var listening Listening
	if err := out.Next(ctx, r, &listening); err != nil {
		return t, said(err, r, &receiveErr)
	}
	s, err := from.Start(ctx, host.Command{
		Name: "goodput-send",
		Args: []string{sender, "goodput-send", "--to", net.JoinHostPort(to.Addr(), strconv.Itoa(listening.Port)), "--limit", (d + settle + transferWait).String()},
		Err:  &sendErr,
	})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Stop(ctx, 0)) }()
	select {
	case <-s.Done(): // the receiver's end, or a failure
		if err := s.Wait(ctx); err != nil {
			return t, said(err, s, &sendErr)
		}
	case <-r.Done():
	case <-ctx.Done():
	}
	if err := r.Wait(ctx); err != nil {
		return t, said(err, r, &receiveErr)
	}
	return t, out.Next(ctx, r, &t)
}

// Listening is what a receiver reports first.
type Listening struct {
	Port int `json:"port"`
}

// said adds what a program wrote on standard error, once it has ended.
func said(err error, p host.Process, text *bytes.Buffer) error {
	select {
	case <-p.Done():
		if b := bytes.TrimSpace(text.Bytes()); len(b) > 0 {
			return fmt.Errorf("%w: %s", err, b)
		}
	default:
	}
	return err
}

// Measure measures the link both ways, each for d, one after the other, and refuses one
// that does not give TCP, within 5 %, what a wire of rateMbps gives; 0 takes
// any. What it finds is written to out as it comes.
func Measure(ctx context.Context, client, broker host.Host, rateMbps int, d time.Duration, out io.Writer) error {
	for _, way := range []struct{ from, to host.Host }{{client, broker}, {broker, client}} {
		for try := 1; ; try++ {
			mbps, err := Goodput(ctx, way.from, way.to, d)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "TCP goodput from %s to %s: %.0f Mbit/s\n", way.from.Name(), way.to.Name(), mbps)
			err = judge(mbps, rateMbps, broker.Kind())
			if err == nil {
				break
			}
			if try == tries(mbps, rateMbps, broker.Kind()) {
				return fmt.Errorf("the link from %s to %s %w (measured %d times)", way.from.Name(), way.to.Name(), err, try)
			}
		}
	}
	return nil
}

// tries is how often a link may be measured that gave so much. Less than half
// is more than a busy machine takes.
func tries(mbps float64, rateMbps int, kind host.Kind) int {
	if want := GoodputMbps(rateMbps); kind == host.Namespace && mbps >= want/2 && mbps < want {
		return emulatedTries
	}
	return measureTries
}

// judge says whether a measured goodput is that of a wire of that rate, and
// what to do where it is not.
func judge(mbps float64, rateMbps int, broker host.Kind) error {
	if rateMbps == 0 {
		return nil
	}
	want := GoodputMbps(rateMbps)
	if math.Abs(mbps-want) <= tolerance*want {
		return nil
	}
	return fmt.Errorf("gives TCP %.0f Mbit/s, and a wire of %d Mbit/s gives %.0f (5 %% more or less are taken): %s", mbps, rateMbps, want, mend(mbps, want, broker))
}

// commonRates are the wires that a network is likely to have, in Mbit/s.
var commonRates = []int{100, 1000, 2500, 5000, 10_000, 25_000, 40_000, 100_000}

// mend says what is most likely wrong with a link that gives too much or too
// little.
func mend(mbps, want float64, kind host.Kind) string {
	if kind != host.SSH {
		if mbps > want {
			return "the traffic does not go over the emulated link: \"testbed down\" removes it, and up makes it anew"
		}
		return "both ends are this machine, which is too busy to move that much, or cannot: end what else runs on it (top shows it) and try again; where nothing else runs, a testbed file with a lower rate in [link] is a link that it can keep"
	}
	for _, rate := range commonRates {
		if likely := GoodputMbps(rate); math.Abs(mbps-likely) <= tolerance*likely {
			return fmt.Sprintf("that is what a wire of %[1]d Mbit/s gives: if the network is one, put rate = \"%[1]dmbit\" into [link] of the testbed file", rate)
		}
	}
	if mbps > want {
		return "either the rate in [link] of the testbed file is not the network's, or the traffic does not go over that network (look at the addresses), or its MTU is not 1500"
	}
	return "either the rate in [link] of the testbed file is not the network's, or there is other load on the machines, other traffic, or a slower port on the way"
}
