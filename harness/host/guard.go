package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// A guard is a small shell on the host that outlives the testbed by a moment.
// It makes the host's run folder, then waits for the end of its standard
// input, which comes when the host is closed, when the testbed is killed
// without warning, or when the connection to the machine is lost. Then it
// kills every process group that is still registered, removes the control
// groups that were made for them, and removes the folder.
//
// A program registers itself, before it becomes itself, by making a file with
// its pid in the folder "processes". The order closes every gap: whoever
// cannot make the file any more does not start, and the folder cannot be
// removed while there are files in it.
//
// The folder that holds the run folders is removed by the last of them if it
// was not there before the first. Two guards may meet in doing so: hence the
// tries at the beginning, and the marking again at the end.
//
// A machine that vanishes from the network without a word, with its cable or
// its switch, ends no standard input: sshd may wait for hours. So a guard that
// is given a second argument wants lines on its standard input, and takes
// silence for its end: a process beside it looks every so many seconds, and
// ends the reader when three times in a row no line had come.
//
// This is in place of PR_SET_PDEATHSIG, which kills only the direct child,
// follows the thread (not the process) that forked it, and does not exist over
// ssh.
const guardScript = removeGroups + `
trap '' HUP INT TERM PIPE
base=$1 silence=$2
made=$base/.made-by-kafkalab
d=
for try in 1 2 3 4 5; do
  new=; [ -d "$base" ] || new=1
  mkdir -p -- "$base" || exit 1
  [ -z "$new" ] || : > "$made"
  d=$(mktemp -d "$base/run-XXXXXXXX") && break
done
[ -n "$d" ] || exit 1
mkdir "$d/data" "$d/bin" "$d/processes" "$d/` + groupsFolder + `" || exit 1
echo "kafkalab-guard $$ $d"
if [ -n "$silence" ]; then
  exec 3<&0
  ( while read -r line; do : > "$d/heard"; done ) <&3 3<&- &
  reader=$!
  exec 3<&- </dev/null
  (
    trap 'kill -s KILL "$nap"; exit 0' USR1
    quiet=0
    while [ $quiet -lt 3 ]; do
      sleep "$silence" & nap=$!
      wait "$nap"
      if [ -e "$d/heard" ]; then rm -f -- "$d/heard"; quiet=0; else quiet=$((quiet+1)); fi
    done
    kill -s KILL "$reader"
  ) >/dev/null 2>&1 &
  counter=$!
  wait "$reader"
  kill -s USR1 "$counter" 2>/dev/null
  wait "$counter"
else
  while read -r line; do :; done
fi
tries=0
while [ -d "$d/processes" ] && [ $tries -lt 200 ]; do
  tries=$((tries+1))
  for f in "$d"/processes/*; do
    [ -e "$f" ] || continue
    p=${f##*/}
    kill -s KILL -- "-$p" 2>/dev/null
    # Once more after the group is gone: a program may have been about to fork.
    while kill -s KILL -- "-$p" 2>/dev/null && [ $tries -lt 200 ]; do tries=$((tries+1)); sleep 0.05; done
    rm -f -- "$f"
  done
  rmdir "$d/processes" 2>/dev/null || sleep 0.05
done
for f in "$d"/` + groupsFolder + `/*; do [ ! -e "$f" ] || remove_group; done
rm -rf -- "$d" || exit 1
[ -e "$made" ] || exit 0
set -- "$base"/*
[ ! -e "$1" ] || exit 0
rm -f -- "$made"
rmdir -- "$base" 2>/dev/null || { [ ! -d "$base" ] || : > "$made"; }
exit 0
`

// guardSilence is how long a remote guard waits for a word of this machine: as
// long as ssh waits for one of the other (ServerAliveInterval times
// ServerAliveCountMax).
var guardSilence = time.Minute

// guardMark begins the line with which the guard reports. What a login shell
// prints before it is passed over.
const guardMark = "kafkalab-guard "

type guard struct {
	cmd    *exec.Cmd
	remote bool   // cmd is the ssh that leads to it
	pid    int    // on the host
	runDir string // on the host
	in     io.Closer
	done   chan struct{} // closed when the guard has ended
	err    error         // why it ended; set before done is closed
	stderr *Tail
	lines  sync.WaitGroup // of keepAlive, which ends after done
}

// startGuard starts cmd, which runs guardScript, here or remote, and waits for
// its report.
func startGuard(ctx context.Context, cmd *exec.Cmd, remote bool) (*guard, error) {
	g := &guard{cmd: cmd, remote: remote, done: make(chan struct{}), stderr: NewTail(tailBytes)}
	cmd.Stderr = g.stderr
	// Not to be held up by a child of ssh that keeps standard error open.
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g.in = in
	report := make(chan error, 1)
	go func() {
		report <- g.readReport(out)
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			g.err = withTail(err, g.stderr)
		}
		close(g.done)
	}()
	select {
	case err = <-report:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		if remote {
			g.lines.Go(func() { g.keepAlive(in) })
		}
		return g, nil
	}
	g.in.Close()
	// A guard that has not reported has nothing to clean up; ssh may still be
	// waiting for an answer.
	select {
	case <-g.done:
	case <-time.After(time.Second):
		_ = cmd.Process.Kill()
		<-g.done
	}
	if g.err != nil && ctx.Err() == nil {
		err = g.err
	}
	return nil, err
}

// keepAlive writes the lines that say to a remote guard that this machine is
// still there, until the guard has ended or its input is closed.
func (g *guard) keepAlive(in io.Writer) {
	t := time.NewTicker(guardSilence / 6)
	defer t.Stop()
	for {
		// A write ends with an error once close has closed the pipe.
		if _, err := io.WriteString(in, "here\n"); err != nil {
			return
		}
		select {
		case <-t.C:
		case <-g.done:
			return
		}
	}
}

func (g *guard) readReport(out io.Reader) error {
	lines := bufio.NewScanner(io.LimitReader(out, 64<<10))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), guardMark)
		if !ok {
			continue
		}
		if _, err := fmt.Sscanf(rest, "%d", &g.pid); err != nil {
			return fmt.Errorf("guard reported %q", rest)
		}
		_, g.runDir, _ = strings.Cut(rest, " ")
		if !strings.HasPrefix(g.runDir, "/") {
			return fmt.Errorf("guard reported %q", rest)
		}
		return nil
	}
	return errors.New("the shell on the host did not report")
}

// close lets the guard clean up and waits for it, until ctx ends. A guard that
// needs longer goes on: it is a process of its own.
func (g *guard) close(ctx context.Context) error {
	g.in.Close()
	select {
	case <-g.done:
		g.lines.Wait()
		return g.err
	case <-ctx.Done():
		if g.remote {
			// Only the way to it ends, on which there may be no answer any more.
			_ = g.cmd.Process.Kill()
			<-g.done
			g.lines.Wait()
		}
		return fmt.Errorf("%s is still being removed: %w", g.runDir, ctx.Err())
	}
}

// alive reports whether programs may still be started.
func (g *guard) alive() error {
	select {
	case <-g.done:
		if g.err != nil {
			return fmt.Errorf("the connection to the host was lost: %w", g.err)
		}
		return errors.New("the host's guard has ended")
	default:
		return nil
	}
}

// withTail adds what a program said on standard error to how it ended.
func withTail(err error, t *Tail) error {
	if text := t.String(); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}
