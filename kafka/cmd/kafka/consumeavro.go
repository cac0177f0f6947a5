package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// avroOutput are the flags of messages that are Avro.
type avroOutput struct {
	on       bool
	registry string

	client *schema.Client
	reader *avroReader // nil: messages are printed as they are
}

func (a *avroOutput) flags(fs *flagSet) {
	fs.BoolVar(&a.on, "avro", false, "messages are Avro: print them as JSON; with --json as \"value\", beside \"schema_id\"")
	fs.registryURLFlag(&a.registry, "with --avro")
}

func (a *avroOutput) check(fs *flagSet) error {
	switch {
	case !a.on:
		return fs.refuse("it is for --avro, messages that hold the id of a schema", registryFlag)
	case !fs.Changed(registryFlag):
		return usagef("--%s is missing: it has the schemas that the messages of --avro name", registryFlag)
	}
	return nil
}

// open makes the client of the registry, which asks for nothing before the first message.
func (a *avroOutput) open(ctx context.Context, notes io.Writer) (err error) {
	if !a.on {
		return nil
	}
	if a.client, err = schema.NewClient(schema.ClientConfig{URL: a.registry}); err != nil {
		return usagef("--%s: %w", registryFlag, err)
	}
	a.reader = &avroReader{ctx: ctx, client: a.client, notes: notes}
	return nil
}

func (a *avroOutput) close() {
	if a.client != nil {
		a.client.Close()
	}
}

// end returns the error of messages that could not be read, if there were some.
func (a *avroOutput) end() error {
	if a.reader == nil || a.reader.bad == 0 {
		return nil
	}
	return fmt.Errorf("%s could not be read as Avro, and not printed", count(a.reader.bad, "message"))
}

// printedAvro is a message of Avro in JSON.
type printedAvro struct {
	printedMessage
	SchemaID uint32          `json:"schema_id"`
	Value    json.RawMessage `json:"value"`
}

// printedGroupAvro is such a message of a group.
type printedGroupAvro struct {
	Topic  string `json:"topic"`
	Broker int32  `json:"broker_id"`
	printedAvro
}

const (
	// registryWait is the pause before a registry that is away is asked again.
	registryWait = time.Second
	// maxBadNotes is how many messages that cannot be read are told of one by one.
	maxBadNotes = 20
)

// avroReader reads payloads, for several streams at once.
type avroReader struct {
	ctx    context.Context // of the command
	client *schema.Client
	notes  io.Writer

	mu      sync.Mutex // guards what follows, and the order of notes
	bad     int64
	waiting bool // the user was told that the registry is away
}

// value returns a payload as JSON, and the id of its schema. Of one that cannot be read,
// which it tells of, value is nil. While the registry cannot be asked for a schema that
// is not known it waits. The error is that of the command's end.
func (a *avroReader) value(payload []byte, where func() string) (value json.RawMessage, id uint32, err error) {
	for {
		value, err = a.client.AppendJSON(a.ctx, nil, payload)
		if a.ctx.Err() != nil {
			return nil, 0, a.ctx.Err()
		}
		if !errors.Is(err, schema.ErrUnavailable) {
			break
		}
		a.wait(err)
		select {
		case <-time.After(registryWait):
		case <-a.ctx.Done():
			return nil, 0, a.ctx.Err()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting {
		a.waiting = false
		fmt.Fprintln(a.notes, "the schema registry answers again")
	}
	if err != nil {
		if a.bad++; a.bad <= maxBadNotes {
			fmt.Fprintf(a.notes, "%s: passed over: %v\n", where(), err)
		}
		return nil, 0, nil
	}
	id, _, err = envelope.OpenSchema(payload) // as the client has just done
	return value, id, err
}

func (a *avroReader) wait(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.waiting {
		a.waiting = true
		fmt.Fprintf(a.notes, "%v; trying again\n", err)
	}
}
