package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"kafkalab/kafka/registry"
)

func groupsCommand() command {
	return command{name: "groups", summary: "list, describe, reset and delete consumer groups", run: runGroups}
}

const groupsAbout = `list      prints the groups, one a line
describe  prints how far a group is with each partition of its topics: the stream
          that owns it (NO OWNER where nobody reads it), the committed offset,
          the lag in bytes against the watermark, which is the exclusive end of
          what is visible; and the members' streams with what they own
reset     moves the committed offsets of a group to --to: smallest, largest, the
          offset of a message, or a time (RFC 3339), from which on nothing is
          missed that was written after it, but the beginning of a segment comes
          again. Of all topics for which the group has offsets, or of each
          --topic. Refused while the group has members: they go on where they are
          and write over what was reset; --force does it all the same. --dry-run
          only prints what would change
delete    removes all that is kept of a group: its offsets. Refused while it has
          members

A partition is named by broker and number: 0-1 is partition 1 of broker 0.`

const groupsExamples = `  kafka groups list --zk-connect 127.0.0.1:2181
  kafka groups describe g --zk-connect 127.0.0.1:2181 --json
  kafka groups reset g --to smallest --topic clicks --dry-run --zk-connect 127.0.0.1:2181
  kafka groups reset g --to 2026-01-31T12:00:00Z --zk-connect 127.0.0.1:2181
  kafka groups delete g --zk-connect 127.0.0.1:2181
`

// groupsAction is what is to be done, and how it is printed.
type groupsAction struct {
	zk      zkOptions
	reg     *registry.Registry
	connect *connector
	groups  []string
	out     io.Writer
	notes   io.Writer
	json    bool
}

func runGroups(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka groups list|describe GROUP…|reset GROUP --to WHERE|delete GROUP… --zk-connect HOST:PORT,…/PATH", groupsAbout, groupsExamples)
	a := groupsAction{out: std.Out, notes: std.Err}
	zk := fs.zkConnectFlag()
	to := fs.String("to", "", "reset: smallest (or earliest), largest (or latest), an offset, or a time (RFC 3339)")
	r := groupReset{}
	fs.StringArrayVar(&r.topics, "topic", nil, "reset: a topic, may be given several times; otherwise all of the group")
	fs.BoolVar(&r.dryRun, "dry-run", false, "reset: change nothing")
	fs.BoolVar(&r.force, "force", false, "reset: also while the group has members")
	fs.BoolVar(&a.json, "json", false, "print JSON, one object a line")
	connectTimeout := fs.connectFlag()
	fs.oneOf("list", "describe", "reset", "delete")
	fs.notFlag("group", "groups are named as arguments, as in \"kafka groups describe g\"")
	fs.require(zkFlag)
	if err := fs.parse(args, 1, 1<<15); err != nil {
		return err
	}
	a.groups = fs.Args()[1:]
	do, err := a.action(fs.Arg(0), &r)
	if err != nil {
		return err
	}
	if fs.Arg(0) != "reset" {
		err = fs.refuse("it is for reset", "to", "topic", "dry-run", "force")
	} else {
		err = r.parse(*to)
	}
	if err != nil {
		return err
	}
	a.zk = zkOptions{servers: *zk, connect: *connectTimeout}
	if err := a.zk.check(); err != nil {
		return err
	}
	if a.connect, err = newConnector(*connectTimeout, std.Err); err != nil {
		return err
	}
	if a.reg, err = a.zk.open(ctx, std.Err); err != nil {
		return err
	}
	defer closeRegistry(a.reg, std.Err)
	if err := a.zk.mustHaveRoot(ctx, a.reg); err != nil {
		return err
	}
	return do(ctx, a)
}

// action returns what is to be done, and checks the groups named to it.
func (a groupsAction) action(name string, r *groupReset) (do func(context.Context, groupsAction) error, err error) {
	for i, g := range a.groups {
		if slices.Contains(a.groups[:i], g) {
			return nil, usagef("group %s is named twice", g)
		}
		if err := registry.CheckGroup(g); err != nil {
			return nil, usageError{err}
		}
	}
	switch n := len(a.groups); {
	case name == "list" && n > 0:
		return nil, usagef("list takes no group, and %q is given: describe shows one", a.groups[0])
	case name == "list":
		return func(ctx context.Context, a groupsAction) error { return a.list(ctx) }, nil
	case n == 0:
		return nil, usagef("%s: name a group", name)
	case name == "describe":
		return func(ctx context.Context, a groupsAction) error { return a.each(ctx, a.describe) }, nil
	case name == "delete":
		return func(ctx context.Context, a groupsAction) error { return a.each(ctx, a.delete) }, nil
	case n > 1:
		return nil, usagef("reset: one group at a time, and %d are named", n)
	}
	return func(ctx context.Context, a groupsAction) error {
		return a.each(ctx, func(ctx context.Context, group string) error { return r.run(ctx, a, group) })
	}, nil
}

// each does something with every group that is named. One that fails does not
// keep the others from their turn.
func (a groupsAction) each(ctx context.Context, do func(ctx context.Context, group string) error) error {
	all, err := a.reg.Groups(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range a.groups {
		if !slices.Contains(all, g) {
			errs = append(errs, fmt.Errorf("no group %q in ZooKeeper at %s: \"kafka groups list\" names those that are there", g, a.zk.servers))
			continue
		}
		err := do(ctx, g)
		var active *registry.ActiveGroupError
		switch {
		case errors.As(err, &active): // which names the group
			errs = append(errs, err)
		case err != nil:
			errs = append(errs, fmt.Errorf("group %s: %w", g, err))
		}
	}
	return errors.Join(errs...)
}

// listedGroup is a group as list prints it in JSON.
type listedGroup struct {
	Group   string `json:"group"`
	Members int    `json:"members"`
}

func (a groupsAction) list(ctx context.Context) error {
	groups, err := a.reg.Groups(ctx)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !a.json {
			_, err = fmt.Fprintln(a.out, g)
		} else {
			err = a.listJSON(ctx, g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a groupsAction) listJSON(ctx context.Context, group string) error {
	members, err := a.reg.Consumers(ctx, group)
	if err := skipBad(err, a.notes); err != nil {
		return err
	}
	return writeJSON(a.out, listedGroup{group, len(members)})
}

func (a groupsAction) describe(ctx context.Context, group string) error {
	g, err := a.readGroup(ctx, group)
	if g == nil {
		return err
	}
	show := g.print
	if a.json {
		show = func(out io.Writer) error { return writeJSON(out, g) }
	}
	perr := show(a.out)
	for _, note := range g.notes() {
		fmt.Fprintln(a.notes, note)
	}
	return errors.Join(err, perr)
}

// deletedGroup is what delete has done, in JSON.
type deletedGroup struct {
	Group   string `json:"group"`
	Deleted bool   `json:"deleted"`
}

// delete deletes a group. The registry refuses while it has members.
func (a groupsAction) delete(ctx context.Context, group string) error {
	if err := a.reg.DeleteGroup(ctx, group); err != nil {
		return err
	}
	if a.json {
		return writeJSON(a.out, deletedGroup{group, true})
	}
	return nil
}
