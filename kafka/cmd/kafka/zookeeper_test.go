package main

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/rogpeppe/go-internal/testscript"
)

// Commands of scripts for a server of ZooKeeper's protocol at $ZK:
//
//	zookeeper word WORD          prints the answer to a four-letter word
//	zookeeper create PATH DATA   makes a node
//	zookeeper get PATH           prints a node's data
func init() {
	scriptCommands["zookeeper"] = func(ts *testscript.TestScript, _ bool, args []string) {
		switch args[0] {
		case "word":
			answer, err := zookeeperWord(ts.Getenv("ZK"), args[1])
			ts.Check(err)
			fmt.Fprint(ts.Stdout(), answer)
		case "create":
			withZooKeeper(ts, func(c *zk.Conn) error {
				_, err := c.Create(args[1], []byte(args[2]), 0, zk.WorldACL(zk.PermAll))
				return err
			})
		case "get":
			withZooKeeper(ts, func(c *zk.Conn) error {
				data, _, err := c.Get(args[1])
				fmt.Fprintf(ts.Stdout(), "%s\n", data)
				return err
			})
		default:
			ts.Fatalf("zookeeper %s: no such command", args[0])
		}
	}
}

// zookeeperWord returns the answer to a four-letter word.
func zookeeperWord(addr, word string) (string, error) {
	c, err := net.DialTimeout("tcp", addr, scriptLimit)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(scriptLimit)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(c)
	return string(answer), err
}

// quietLog takes the log of a client, of which a script shows nothing.
type quietLog struct{}

func (quietLog) Printf(string, ...any) {}

func withZooKeeper(ts *testscript.TestScript, f func(*zk.Conn) error) {
	c, _, err := zk.Connect([]string{ts.Getenv("ZK")}, 10*time.Second, zk.WithLogger(quietLog{}))
	ts.Check(err)
	defer c.Close()
	ts.Check(f(c))
}
