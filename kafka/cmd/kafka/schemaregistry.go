package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kafkalab/kafka/message"
	"kafkalab/kafka/registry"
	"kafkalab/kafka/schema"
)

// schemaRegistryStopLimit is how long a registry that was told to stop may take to
// send its last answers.
const schemaRegistryStopLimit = 5 * time.Second

func schemaRegistryCommand() command {
	return command{name: "schema-registry", summary: "keep the Avro schemas of a cluster, in a topic of its own, and answer for them over HTTP", run: runSchemaRegistry}
}

const schemaRegistryAbout = `Says over HTTP which Avro schema an id stands for, and gives ids to new ones, as
today's registry clients ask for it, until it is told to stop by SIGINT or SIGTERM.
All that it knows stands in the topic "schemas" of the cluster, one partition at one
broker, which is made if there never was one, and which brokers keep for ever. Nothing
is kept elsewhere: started again, here or on another machine, it knows the same. Several
may run for one cluster at once; the topic decides between them. Which one it is is noted
in ZooKeeper with the first schema: another one, made while its broker was away, is not
taken for it. With --broker-list the topic is made whenever that broker does not have it.

While the broker of the topic is away it answers for what it knows, and refuses to
change anything. Everybody who can reach the address may change schemas, so serve it to
machines that you trust.`

const schemaRegistryExamples = `  kafka schema-registry --zk-connect 127.0.0.1:2181
  kafka schema-registry --broker-list 127.0.0.1:9092 --listen 0.0.0.0:8081
  curl http://127.0.0.1:8081/subjects
  curl -H 'Content-Type: application/vnd.schemaregistry.v1+json' --data '{"schema": "\"string\""}' http://127.0.0.1:8081/subjects/t-value/versions
`

// schemaRegistryOptions are the flags of schema-registry.
type schemaRegistryOptions struct {
	list, listen string
	zk           zkOptions
	beginAnew    bool
	maxBytes     *byteSize
	log          *slog.Logger
	notes        io.Writer
}

func runSchemaRegistry(ctx context.Context, args []string, std stdio) error {
	fs := newFlags(std, "kafka schema-registry (--zk-connect HOST:PORT,…/PATH | --broker-list HOST:PORT) [--listen HOST:PORT]", schemaRegistryAbout, schemaRegistryExamples)
	o := schemaRegistryOptions{notes: std.Err}
	zk := fs.zkConnectFlag()
	fs.StringVar(&o.list, listFlag, "", "without ZooKeeper: the one broker, HOST:PORT, that keeps the schemas")
	fs.StringVar(&o.listen, "listen", "127.0.0.1:8081", "address to serve clients on; port 0 takes a free one, which the log tells")
	fs.BoolVar(&o.beginAnew, "begin-anew", false, "when the topic is lost for good: go on with another one, or make it, and give its ids again; for one start")
	o.maxBytes = fs.sizeFlag("max-schemas-size", schema.DefaultMaxStoreBytes, "how much memory all schemas may take, about; more are refused")
	connectTimeout := fs.connectFlag()
	level := logLevel(slog.LevelInfo)
	fs.Var(&level, "log-level", "least level of what is logged")
	format := logFormat("text")
	fs.Var(&format, "log-format", "form of the log: a line of key=value for each entry, or a JSON object")
	if err := fs.parse(args, 0, 0); err != nil {
		return err
	}
	if err := fs.oneSource(); err != nil {
		return err
	}
	o.log = format.logger(std.Err, slog.Level(level))
	o.zk.servers, o.zk.connect = *zk, *connectTimeout
	switch {
	case o.beginAnew && *zk == "":
		return usagef("--begin-anew: it is for --zk-connect")
	case *connectTimeout < 0:
		return usagef("--connect-timeout %v: 0 or more is wanted", *connectTimeout)
	case *o.maxBytes < 1:
		return usagef("--max-schemas-size %s: at least 1 byte is wanted", o.maxBytes)
	}
	if err := checkListen("listen", o.listen); err != nil {
		return err
	}
	err := o.run(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // told to stop before it was up
	}
	return err
}

// run runs the registry until ctx ends.
func (o *schemaRegistryOptions) run(ctx context.Context) error {
	place, done, err := o.place(ctx)
	if err != nil {
		return err
	}
	defer done()
	store, err := schema.Open(ctx, schema.StoreConfig{
		Locate: place.Locate, Claim: place.Claim, ConnectTimeout: max(o.zk.connect, time.Millisecond), MaxBytes: int64(*o.maxBytes), Logger: o.log,
	})
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := schema.Serve(ctx, schema.ServerConfig{Store: store, Listen: o.listen, Logger: o.log})
	if err != nil {
		return err
	}
	has := store.Stats()
	o.log.Info("schema registry started", "listen", s.Addr().String(), "schemas", has.Schemas, "subjects", has.Subjects, "offset", has.NextOffset)
	select {
	case <-ctx.Done():
		o.log.Info("schema registry stops")
	case <-s.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), schemaRegistryStopLimit)
	defer cancel()
	if err := s.Close(stop); err != nil {
		o.log.Warn("a peer was cut off", "error", err) // it may have sent half a request, and that is no failure
	}
	return s.Err()
}

// place returns a store's settings that say where the topic is, and what is to be called
// when they are not needed any more.
func (o *schemaRegistryOptions) place(ctx context.Context) (c schema.StoreConfig, done func(), err error) {
	if o.zk.servers == "" {
		brokers, err := brokerList(o.list)
		if err != nil {
			return c, nil, err
		}
		if len(brokers) != 1 {
			return c, nil, usagef("--broker-list: one broker keeps all schemas, and %d are given (with --zk-connect the registry finds it)", len(brokers))
		}
		return schema.StoreConfig{Locate: schema.AtBroker(brokers[0])}, func() {}, nil
	}
	reg, err := o.zk.open(ctx, o.notes)
	if err != nil {
		return c, nil, err
	}
	if o.beginAnew {
		if err := reg.ForgetLog(ctx, message.SchemasTopic); err != nil {
			closeRegistry(reg, o.notes)
			return c, nil, err
		}
	}
	p := schemasPlace{zk: o.zk, reg: reg, notes: o.notes}
	return schema.StoreConfig{Locate: p.find, Claim: p.claim}, func() { closeRegistry(reg, o.notes) }, nil
}

// schemasPlace finds the broker that has the topic of schemas, by ZooKeeper.
type schemasPlace struct {
	zk    zkOptions
	reg   *registry.Registry
	notes io.Writer
}

// claim compares the log of the topic with the one that this cluster's schemas were begun
// in: see [schema.StoreConfig].
func (p schemasPlace) claim(ctx context.Context, log string) error {
	noted, err := p.reg.NoteLog(ctx, message.SchemasTopic, log)
	if err == nil && noted != log {
		err = fmt.Errorf("%w: topic %s is another one than this cluster's schemas are in: start the broker that has that, and delete this one (\"kafka topics delete %[2]s --broker-list …\"); if it is gone for good, --begin-anew goes on with this one, which gives the same ids again",
			schema.ErrBroken, message.SchemasTopic)
	}
	return err
}

// find returns the address of the broker. The topic is made, at the broker with the
// least id, only if it is registered nowhere and no schema was ever in it: a broker that is
// away may have it.
func (p schemasPlace) find(ctx context.Context) (string, error) {
	var maker *registry.Broker
	for {
		have, brokers, err := p.look(ctx)
		switch {
		case err != nil:
			return "", err
		case len(have) == 1:
			return have[0].Addr(), nil
		case len(have) > 1:
			var ids []string
			for _, b := range have {
				ids = append(ids, fmt.Sprint(b.ID))
			}
			return "", fmt.Errorf("topic %s is at brokers %s: one alone may have it, or an id could be given twice; find out which one is right (\"kafka consume --broker-list … --topic %[1]s\") and delete it at the others (\"kafka topics delete %[1]s --broker-list …\")",
				message.SchemasTopic, strings.Join(ids, ", "))
		}
		if maker == nil {
			topics, err := p.reg.Topics(ctx)
			if err != nil {
				return "", err
			}
			if slices.Contains(topics, message.SchemasTopic) {
				return "", fmt.Errorf("topic %s is at a broker that is not registered now: start it", message.SchemasTopic)
			}
			noted, err := p.reg.NoteLog(ctx, message.SchemasTopic, "")
			switch {
			case err != nil:
				return "", err
			case noted != "":
				return "", fmt.Errorf("topic %s was there before, and no broker that lives has it: start the broker that has it; if it is gone for good, --begin-anew makes a new one, which gives the same ids again",
					message.SchemasTopic)
			case len(brokers) == 0:
				return "", p.zk.noBroker()
			}
			if err := schema.CreateTopic(ctx, brokers[0].Addr()); err != nil {
				return "", fmt.Errorf("broker %d: %w", brokers[0].ID, err)
			}
			maker = &brokers[0]
		}
		// It is this broker's, and no other one's, once all can see it.
		select {
		case <-time.After(connectInterval):
		case <-ctx.Done():
			return "", fmt.Errorf("broker %d has made topic %s and does not register it: %w", maker.ID, message.SchemasTopic, ctx.Err())
		}
	}
}

// look returns the brokers that live and have the topic, and all that live, by id.
func (p schemasPlace) look(ctx context.Context) (have, brokers []registry.Broker, err error) {
	brokers, err = p.reg.Brokers(ctx)
	if err := skipBad(err, p.notes); err != nil {
		return nil, nil, err
	}
	counts, err := p.reg.TopicBrokers(ctx, message.SchemasTopic)
	if err := skipBad(err, p.notes); err != nil {
		return nil, nil, err
	}
	for _, b := range brokers {
		if counts[b.ID] > 0 {
			have = append(have, b)
		}
	}
	return have, brokers, nil
}
