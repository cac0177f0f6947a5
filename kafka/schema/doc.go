// Package schema keeps the Avro schemas of a cluster and puts messages together
// with them (NetDB'11 §4, rule R31): a message holds the id of its schema and the
// bytes that were serialised with it, a light registry says which schema an id
// stands for, and a consumer looks each id up once.
//
// # Payload
//
// A payload is a zero byte, the id in four bytes, big-endian, and one Avro datum:
// the framing that today's Avro tools read ([kafkalab/kafka/envelope], AppendSchema).
// The audit header of such a message is a field of the record, [HeaderField], and so
// inside the schema; [WithHeader] adds it to a schema.
//
// # The registry
//
// A [Store] holds all schemas in memory, and its only store on disk is a topic of
// the cluster itself, [kafkalab/kafka/message.SchemasTopic]: one partition at one
// broker, which retention leaves alone. A [Server] answers from it over HTTP, with
// the paths, bodies and error codes that today's registry clients use.
//
// Any number of registries may run on one topic, and none of them is the master: the
// log decides. Whoever wants to change something appends what is to be true then,
// numbered one higher than the last change that it has read, and reads the log up to
// there. The first record with a number counts, all others with it do not, and who
// wrote one of those looks at what has changed and tries again. So every registry,
// also one that reads the log from the start years later, comes to the same answer,
// and an id is never given twice, not even after its schema was deleted for good. No
// lock is needed that could be held by a process that is gone.
//
// A record is answered for when the broker has acknowledged it as flushed and it was
// read back. A broker that shows messages before they are flushed (--visible
// appended) can take back what a second registry has read of them: such a broker
// should not have this topic.
//
// # Bad times
//
//   - The broker of the topic is away: what is known is still answered, changes and
//     look-ups of what is not known fail with code 50001. Nothing is said to be
//     missing that may be there.
//   - The topic is not what it was (it begins later, ends earlier, or holds something
//     else): the registry says so, goes on answering for the ids that it knows, and
//     changes nothing any more. Ids of a log that lost its beginning would be given
//     out again. One that is started anew knows what the topic was if somebody keeps
//     that for it ([StoreConfig], Claim), as "kafka schema-registry --zk-connect" does in
//     ZooKeeper: it begins none where there was one before, and takes no other one for
//     it. One that is told the broker ([AtBroker]) takes what is there, and begins a
//     topic wherever it is missing.
//   - Something else was written into the topic: it is passed over, and counted.
//   - The registry is away: a [Client] goes on with the ids that it knows.
//   - A payload that only begins like one with a schema, or whose bytes do not fit it,
//     is an error of that message alone. What it makes the process allocate is bounded
//     by its own size and by limits of this package: also where types have no bytes, of
//     which few bytes, or none, are any number of values.
//
// # Differences from the registries that it answers like
//
// Schemas are Avro alone, without references to others, rules and metadata: these
// are refused and not dropped. Two schemas are the same if they are equal as JSON
// values, so the order of keys and blanks say nothing, and "normalize" has nothing
// left to do; "doc", defaults and aliases count. There are no contexts.
package schema
