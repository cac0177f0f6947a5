package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"kafkalab/kafka/envelope"
	"kafkalab/kafka/etl"
	"kafkalab/kafka/schema"
)

// loadSchemas lets loads use the client of a schema registry.
type loadSchemas struct{ client *schema.Client }

// openLoadSchemas returns what a load asks for schemas, which is to be closed, or nothing
// for payloads that have none. log is told of a registry that does not answer, and of waits;
// it may be nil.
func openLoadSchemas(url string, log *slog.Logger) (s etl.SchemaSource, end func(), err error) {
	if url == "" {
		return nil, func() {}, nil
	}
	c, err := schema.NewClient(schema.ClientConfig{URL: url, AwaitTurn: true, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	return loadSchemas{c}, c.Close, nil
}

func (l loadSchemas) Text(ctx context.Context, id uint32) (string, error) {
	s, err := l.client.Schema(ctx, id)
	if errors.Is(err, schema.ErrUnknownID) {
		return "", fmt.Errorf("%w: %w", etl.ErrNoSchema, err)
	}
	if err != nil {
		return "", err
	}
	return s.String(), nil
}

func (l loadSchemas) Header(ctx context.Context, payload []byte) (envelope.Header, error) {
	h, err := l.client.Header(ctx, payload)
	if errors.Is(err, schema.ErrNoHeader) {
		err = fmt.Errorf("%w: %w", envelope.ErrNotEnvelope, err)
	}
	return h, err
}
