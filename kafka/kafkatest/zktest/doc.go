// Package zktest runs ZooKeeper for tests: the embedded server of
// kafka/zkserver, one real node, or a real ensemble of three, each behind
// proxies that can break the lines to it. Only tests import it.
//
// A real node takes one to four seconds to start. A test that needs no node to
// stop takes a shared one (Shared), with nodes and lines of its own.
//
// The package speaks the protocol itself (Conn): to end a session whose client
// lives on, and for tests of what no ordinary client would send.
package zktest
