package registry

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNotOwner is returned by [Registry.Commit] when the partition does not belong
// to who commits, or no longer.
var ErrNotOwner = errors.New("the partition is not owned by this consumer any more")

// BadNode is a node whose name or value makes no sense.
type BadNode struct {
	Path string
	Err  error // what is wrong with it
}

func (n BadNode) Error() string { return n.Path + ": " + n.Err.Error() }

// BadNodesError lists the nodes that were left out of a result because they make
// no sense, by path. What was returned beside it is right without them.
type BadNodesError struct{ Nodes []BadNode }

// maxNamedNodes is how many bad nodes an error's text names.
const maxNamedNodes = 5

func (e *BadNodesError) Error() string {
	named := make([]string, 0, maxNamedNodes+1)
	for _, n := range e.Nodes[:min(len(e.Nodes), maxNamedNodes)] {
		named = append(named, n.Error())
	}
	if more := len(e.Nodes) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	return "nodes that make no sense: " + strings.Join(named, "; ")
}

// TakenError says that a broker of another host, or another log folder, has the
// id: it lives, or its session has not ended yet.
type TakenError struct {
	ID   int32
	Host string // where the holder is
	Port int
}

func (e *TakenError) Error() string {
	return fmt.Sprintf("broker id %d is taken by the broker at %s port %d: give this one another id, or, if that one is gone for good, wait until its session has ended",
		e.ID, e.Host, e.Port)
}

// OwnedError says that a partition has another owner.
type OwnedError struct {
	Topic     string
	Partition Partition
	Owner     string // the thread that owns it
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("topic %s partition %v is owned by %s", e.Topic, e.Partition, e.Owner)
}

// MovedError says that the offset of a partition is not the one last known to who
// commits: somebody else has written it.
type MovedError struct {
	Topic     string
	Partition Partition
	Offset    int64 // what is there now
	Version   int32 // of the node; -1: it is not there any more
}

func (e *MovedError) Error() string {
	if e.Version < 0 {
		return fmt.Sprintf("the offset of topic %s partition %v was deleted by somebody else", e.Topic, e.Partition)
	}
	return fmt.Sprintf("the offset of topic %s partition %v was changed to %d by somebody else", e.Topic, e.Partition, e.Offset)
}

// ActiveGroupError says that a group has consumers.
type ActiveGroupError struct {
	Group     string
	Consumers []string
}

func (e *ActiveGroupError) Error() string {
	if len(e.Consumers) == 1 {
		return fmt.Sprintf("group %s has a consumer: stop it first (it is %s)", e.Group, e.Consumers[0])
	}
	return fmt.Sprintf("group %s has %d consumers: stop them first (one is %s)", e.Group, len(e.Consumers), e.Consumers[0])
}
