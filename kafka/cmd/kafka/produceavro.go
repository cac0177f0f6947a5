package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/schema"
)

// avroInput makes the lines of the input, which are JSON, messages of Avro. Without a
// schema it leaves them as they are.
type avroInput struct {
	file, subject, registry string

	// audited says that lines get the audit header, which is a field of their record.
	audited bool

	client  *schema.Client
	encoder *schema.Encoder // nil: lines stay as they are

	buf      []byte
	ends     []int
	payloads [][]byte
}

const registryFlag = "schema-registry"

// registryURLFlag adds the flag for the address of a schema registry.
func (f *flagSet) registryURLFlag(value *string, with string) {
	f.StringVar(value, registryFlag, "", with+": the schema registry, http://HOST:PORT (\"kafka schema-registry\" is one)")
}

func (a *avroInput) flags(fs *flagSet) {
	fs.StringVar(&a.file, "avro-schema", "", "file with the Avro schema of the lines, which are JSON then")
	fs.StringVar(&a.subject, "subject", "", "with --avro-schema: the subject to register it for, the topic and \"-value\" by default")
	fs.registryURLFlag(&a.registry, "with --avro-schema")
}

// check checks what the flags say.
func (a *avroInput) check(fs *flagSet, topic string) error {
	if !fs.Changed("avro-schema") {
		return fs.refuse("it is for --avro-schema, the schema of the lines", "subject", registryFlag)
	}
	if !fs.Changed(registryFlag) {
		return usagef("--%s is missing: with --avro-schema a message holds the id that the registry has for it", registryFlag)
	}
	if !fs.Changed("subject") {
		a.subject = topic + "-value" // as today's clients name it
	}
	if err := schema.CheckSubject(a.subject); err != nil {
		return usagef("--subject: %w", err)
	}
	return nil
}

// open registers the schema.
func (a *avroInput) open(ctx context.Context, connect *connector) error {
	if a.file == "" {
		return nil
	}
	text, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("--avro-schema: %w", err)
	}
	wanted := string(text)
	if a.audited {
		wanted, err = schema.WithHeader(wanted)
	}
	if err != nil {
		return fmt.Errorf("--avro-schema %s: %w", a.file, err)
	}
	s, err := schema.Parse(wanted)
	if err != nil {
		return fmt.Errorf("--avro-schema %s: %w", a.file, err)
	}
	if a.client, err = schema.NewClient(schema.ClientConfig{URL: a.registry}); err != nil {
		return usagef("--%s: %w", registryFlag, err)
	}
	return connect.tryRegistry(ctx, func() error {
		a.encoder, err = a.client.Encoder(ctx, a.subject, s)
		return err
	})
}

func (a *avroInput) close() {
	if a.client != nil {
		a.client.Close()
	}
}

// encode encodes lines. With an error come those before the line that does not fit the
// schema. What it returns is valid until the next call.
func (a *avroInput) encode(lines [][]byte) (payloads [][]byte, err error) {
	if a.encoder == nil {
		return lines, nil
	}
	a.buf, a.ends, a.payloads = a.buf[:0], a.ends[:0], a.payloads[:0]
	for _, line := range lines {
		if a.buf, err = a.encoder.AppendJSON(a.buf, line); err != nil {
			break
		}
		a.ends = append(a.ends, len(a.buf))
	}
	start := 0
	for _, end := range a.ends {
		a.payloads = append(a.payloads, a.buf[start:end:end])
		start = end
	}
	return a.payloads, err
}

// sendEncoded encodes lines and sends them, those before one that does not fit. It
// returns how many were sent.
func (a *avroInput) sendEncoded(lines [][]byte, send func(payloads [][]byte) error) (int, error) {
	payloads, unfit := a.encode(lines)
	if len(payloads) > 0 {
		if err := send(payloads); err != nil {
			return taken(err), err
		}
	}
	return len(payloads), unfit
}

// anyHeader stands for the audit header of lines that are only looked at.
var anyHeader = envelope.Header{Time: time.UnixMilli(0), Server: "-", Producer: envelope.ProducerID{1}, Sequence: 1}

// fitting returns how many lines, from the first, can be encoded with an audit header,
// and what is wrong with the next one. A line gets its number in the sequence of the
// producer when it is sent, so one that does not fit must be known before.
func (a *avroInput) fitting(lines [][]byte) (n int, err error) {
	if a.encoder == nil {
		return len(lines), nil
	}
	for i, line := range lines {
		if a.buf, err = a.encoder.AppendJSONWithHeader(a.buf[:0], line, anyHeader); err != nil {
			return i, err
		}
	}
	return len(lines), nil
}
