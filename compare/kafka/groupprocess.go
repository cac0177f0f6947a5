package kafka

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"kafkalab/harness/host"
)

// memberProcess is the process of a consumer, seen from outside.
type memberProcess struct {
	number int
	id     string
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr *host.Tail

	events chan memberEvent
	wanted chan struct{} // closed when its end is wanted
	ended  chan struct{} // closed when it has ended and all that it said has been heard
	closed bool          // wanted is
	left   bool          // it has left the group, or was killed
}

const (
	stderrBytes = 2 << 10
	// exitLimit is how long a process may take to end once its input has.
	exitLimit = 5 * time.Second
)

// startMember starts a process and waits until it is ready to join. handed is
// called for each message that it tells of, from one goroutine. died is called
// if it ends though nobody wanted that.
func startMember(ctx context.Context, number int, helper []string, spec memberSpec, handed func(handedOut), died func(error)) (*memberProcess, error) {
	m := &memberProcess{
		number: number, id: spec.ID, stderr: host.NewTail(stderrBytes),
		events: make(chan memberEvent, 16), wanted: make(chan struct{}), ended: make(chan struct{}),
	}
	m.cmd = exec.Command(helper[0], helper[1:]...)
	// It ends with this process, however this one ends: by the end of its input.
	m.cmd.Stderr = m.stderr
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		m.in, err = m.cmd.StdinPipe()
	}
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("starting consumer %s: %w", m.id, err)
	}
	go func() {
		defer close(m.ended)
		err := m.hear(out, handed)
		err = errors.Join(err, m.cmd.Wait())
		select {
		case <-m.wanted:
		default:
			died(fmt.Errorf("consumer %s has ended by itself: %w: %s", m.id, err, m.stderr))
		}
	}()
	text, err := json.Marshal(spec)
	if err == nil {
		_, err = m.in.Write(append(text, '\n'))
	}
	if err == nil {
		var e memberEvent
		if e, err = m.event(ctx); err == nil && !e.Ready {
			err = fmt.Errorf("it says %+v", e)
		}
	}
	if err != nil {
		m.kill()
		return nil, fmt.Errorf("starting consumer %s: %w", m.id, err)
	}
	return m, nil
}

// hear takes what the process says until its output ends.
func (m *memberProcess) hear(out io.Reader, handed func(handedOut)) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if text, ok := bytes.CutPrefix(line, []byte("e ")); ok {
			var e memberEvent
			if err := json.Unmarshal(text, &e); err != nil {
				return fmt.Errorf("%q is no event: %w", text, err)
			}
			select {
			case m.events <- e:
			default:
				return fmt.Errorf("it says more than it was asked: %+v", e)
			}
			continue
		}
		// One that is killed in the middle of a line has told nothing by it.
		if h, ok := parseHanded(line, m.number); ok {
			handed(h)
		}
	}
	return lines.Err()
}

// parseHanded reads "m <broker> <partition> <offset> <sequence>".
func parseHanded(line []byte, member int) (handedOut, bool) {
	text, ok := bytes.CutPrefix(line, []byte("m "))
	if !ok {
		return handedOut{}, false
	}
	var n [4]int64
	for i := range n {
		field, rest, more := bytes.Cut(text, []byte{' '})
		if more != (i < len(n)-1) || !parseInt(field, &n[i]) {
			return handedOut{}, false
		}
		text = rest
	}
	return handedOut{member: member, broker: int32(n[0]), partition: int32(n[1]), offset: n[2], sequence: n[3]}, true
}

// parseInt reads a decimal number without making a string of it.
func parseInt(b []byte, n *int64) bool {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 18 {
		return false
	}
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
		v = v*10 + int64(c-'0')
	}
	if negative {
		v = -v
	}
	*n = v
	return true
}

// ask sends a command and waits for the answer.
func (m *memberProcess) ask(ctx context.Context, command string) (memberEvent, error) {
	_, err := io.WriteString(m.in, command+"\n")
	var e memberEvent
	if err == nil {
		e, err = m.event(ctx)
	}
	if err == nil && e.Failed != "" {
		err = errors.New(e.Failed)
	}
	if err != nil {
		err = fmt.Errorf("consumer %s: %s: %w", m.id, command, err)
	}
	return e, err
}

func (m *memberProcess) event(ctx context.Context) (memberEvent, error) {
	select {
	case e := <-m.events:
		return e, nil
	case <-m.ended:
		return memberEvent{}, fmt.Errorf("it has ended: %s", m.stderr)
	case <-ctx.Done():
		return memberEvent{}, context.Cause(ctx)
	}
}

// want says that the end of the process is wanted.
func (m *memberProcess) want() {
	if !m.closed {
		m.closed = true
		close(m.wanted)
	}
}

// kill ends the process with SIGKILL, and returns when all that it had said
// has been heard.
func (m *memberProcess) kill() {
	m.want()
	m.left = true
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.in.Close()
	<-m.ended
}

// end ends the process by the end of its input, or by force.
func (m *memberProcess) end() {
	m.want()
	m.left = true
	_ = m.in.Close() // it may have ended
	timer := time.NewTimer(exitLimit)
	defer timer.Stop()
	select {
	case <-m.ended:
	case <-timer.C:
		m.kill()
	}
}
