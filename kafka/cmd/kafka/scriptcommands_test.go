package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"kafkalab/kafka/kafkatest"
	"kafkalab/kafka/message"
)

// scriptBroker is the key of the script's broker.
type scriptBroker struct{}

// scriptCommands are those that make and break segment files:
//
//	segment FILE PAYLOAD…             appends messages
//	compressed FILE CODEC PAYLOAD…    appends a message with messages inside
//	bytes FILE HEX                    appends bytes
//	damage FILE POSITION              changes a bit
//	size FILE BYTES                   cuts, or makes longer with zeros
//	broker stop|start                 the broker of the script
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"segment": func(ts *testscript.TestScript, _ bool, args []string) {
		appendFile(ts, args[0], scriptSet(args[1:]))
	},
	"compressed": func(ts *testscript.TestScript, _ bool, args []string) {
		codec, err := message.ParseCodec(args[1])
		ts.Check(err)
		entry, err := message.Compress(nil, scriptSet(args[2:]), codec)
		ts.Check(err)
		appendFile(ts, args[0], entry)
	},
	"bytes": func(ts *testscript.TestScript, _ bool, args []string) {
		b, err := hex.DecodeString(args[1])
		ts.Check(err)
		appendFile(ts, args[0], b)
	},
	"damage": func(ts *testscript.TestScript, _ bool, args []string) {
		path := ts.MkAbs(args[0])
		b, err := os.ReadFile(path)
		ts.Check(err)
		b[scriptInt(ts, args[1])] ^= 0x20
		ts.Check(os.WriteFile(path, b, 0o644))
	},
	"size": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(os.Truncate(ts.MkAbs(args[0]), int64(scriptInt(ts, args[1]))))
	},
	"broker": func(ts *testscript.TestScript, _ bool, args []string) {
		b := ts.Value(scriptBroker{}).(*kafkatest.Broker)
		switch args[0] {
		case "stop":
			b.Stop()
		case "start":
			b.Restart() // stopping again does nothing
		default:
			ts.Fatalf("broker %s: stop or start", args[0])
		}
	},
}

// scriptSet is the message set of payloads.
func scriptSet(payloads []string) []byte {
	var set []byte
	for _, p := range payloads {
		set = message.Append(set, []byte(p))
	}
	return set
}

func appendFile(ts *testscript.TestScript, name string, b []byte) {
	path := ts.MkAbs(name)
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	_, err = f.Write(b)
	ts.Check(err)
	ts.Check(f.Close())
}

func scriptInt(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}
