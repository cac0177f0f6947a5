package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// scriptLimit is how long a script waits for a state.
	scriptLimit = 60 * time.Second
	// scriptInterval is the time between two looks at it.
	scriptInterval = 20 * time.Millisecond
)

// scriptProcesses is the key of a script's processes, by name.
type scriptProcesses struct{}

// scriptProcess is a process that a script has started.
type scriptProcess struct {
	cmd      *exec.Cmd
	out, err lines
	ended    chan struct{}
	status   error // once ended is closed
}

// processCommands run and watch processes:
//
//	spawn NAME PROGRAM ARG…                   starts a process, which is killed at the end of the script
//	until NAME stdout|stderr REGEXP [VARIABLE] waits until a process has printed it, and takes what its first group matches
//	signal NAME kill|interrupt|terminate
//	ended NAME                                waits for its end, with status 0; "! ended": with another one
//	printed NAME FILE                         puts the standard output into a file
//	noted NAME FILE                           puts the standard error into a file
//	eventually REGEXP PROGRAM ARG…            runs a program until its standard output matches
var processCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"spawn":      spawnProcess,
	"until":      untilPrinted,
	"signal":     signalProcess,
	"ended":      endedProcess,
	"printed":    printedByProcess,
	"noted":      notedByProcess,
	"eventually": eventuallyPrints,
}

func spawnProcess(ts *testscript.TestScript, _ bool, args []string) {
	p := &scriptProcess{cmd: exec.Command(args[1], args[2:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = ts.MkAbs("."), append(os.Environ(), "HOME="+ts.MkAbs("."))
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.out.has, p.err.has = make(chan struct{}, 1), make(chan struct{}, 1)
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.ended)
		p.status = p.cmd.Wait()
	}()
	all := ts.Value(scriptProcesses{}).(map[string]*scriptProcess)
	all[args[0]] = p
	ts.Defer(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		ts.Logf("[%s]\n%s%s", args[0], p.out.String(), p.err.String())
	})
}

func process(ts *testscript.TestScript, name string) *scriptProcess {
	p := ts.Value(scriptProcesses{}).(map[string]*scriptProcess)[name]
	if p == nil {
		ts.Fatalf("no process %s was spawned", name)
	}
	return p
}

func untilPrinted(ts *testscript.TestScript, _ bool, args []string) {
	p := process(ts, args[0])
	from := &p.out
	if args[1] == "stderr" {
		from = &p.err
	}
	wanted := regexp.MustCompile("(?m)" + args[2])
	deadline := time.NewTimer(scriptLimit)
	defer deadline.Stop()
	for {
		if found := wanted.FindStringSubmatch(from.String()); found != nil {
			if len(args) > 3 {
				ts.Setenv(args[3], found[1])
			}
			return
		}
		select {
		case <-from.has:
		case <-p.ended:
			if wanted.FindString(from.String()) == "" {
				ts.Fatalf("%s ended (%v) without %q", args[0], p.status, args[2])
			}
		case <-deadline.C:
			ts.Fatalf("%s does not print %q within %v", args[0], args[2], scriptLimit)
		}
	}
}

func signalProcess(ts *testscript.TestScript, _ bool, args []string) {
	s := map[string]os.Signal{"kill": syscall.SIGKILL, "interrupt": syscall.SIGINT, "terminate": syscall.SIGTERM}[args[1]]
	if s == nil {
		ts.Fatalf("signal %s: kill, interrupt or terminate", args[1])
	}
	ts.Check(process(ts, args[0]).cmd.Process.Signal(s))
}

func endedProcess(ts *testscript.TestScript, neg bool, args []string) {
	p := process(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(scriptLimit):
		ts.Fatalf("%s does not end within %v", args[0], scriptLimit)
	}
	if (p.status != nil) != neg {
		ts.Fatalf("%s ended: %v", args[0], p.status)
	}
}

func printedByProcess(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(process(ts, args[0]).out.String()), 0o644))
}

func notedByProcess(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(process(ts, args[0]).err.String()), 0o644))
}

func eventuallyPrints(ts *testscript.TestScript, _ bool, args []string) {
	wanted := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(scriptLimit); ; {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if !time.Now().Before(deadline) {
			ts.Fatalf("%s does not print %q within %v (%v)", strings.Join(args[1:], " "), args[0], scriptLimit, err)
		}
		time.Sleep(scriptInterval)
	}
}
