// Package producer publishes messages to brokers (NetDB'11 §3.1, §3.2).
//
// # How a message travels
//
// A synchronous Send encodes its payloads as one message set in one Produce
// request, straight into a buffer. There are two such buffers: while a
// goroutine writes one to the broker, the other fills, and as soon as the
// write has returned the next one begins with all that has gathered. A busy
// producer so writes hundreds of small requests with one system call, and an
// idle one sends at once; no timer delays anything. When the buffer is full,
// Send waits.
//
// An asynchronous Send adds each payload to the open batch of its partition,
// and a batch becomes a request when it has [Config.BatchMessages] messages,
// after [Config.QueueInterval], or at Flush.
//
// # What is promised
//
// Without acknowledgement (the paper's producer, and 0.7's only one) a message
// is sent at most once. Nothing tells the producer that a message has arrived,
// so about once a second, and at Flush and Close, it sends an Offsets request
// behind the messages: a broker answers in order, and the answer means that it
// has read all before it. When a connection breaks, the messages written to it
// since the last such answer may or may not have arrived; they are counted,
// reported by the next call as a [*NotSentError], and never sent again.
// Messages that were not yet written go out over the next connection.
//
// With acknowledgement each request is answered. A synchronous Send waits for
// its answer and returns its error; asynchronous requests are answered while
// up to [Config.MaxInFlight] are on their way, and what was refused is
// reported by the next call. A request whose answer was lost with its
// connection is not repeated either, as it could be in the log already.
//
// # Several brokers
//
// A [Producer] has one connection, to a broker or to one of several that are alike.
// A [Cluster] has a Producer for each broker, knows from ZooKeeper, or from a list,
// which brokers live and what partitions they have, chooses a partition for each
// Send, by chance or by a key, and passes messages that a broker has not got on to
// others when it has gone.
//
// # What happens when there is no room
//
// Messages that a broker does not take as fast as they are sent wait in memory
// that is bounded. What Send does when that is full is [Config.QueueFull]: wait,
// wait at most so long, drop what it was given, or refuse it with an error. None
// of them loses a message without counting it: see [Stats].
//
// # Compression
//
// With a codec the payloads of a synchronous Send, and a batch, travel and are
// stored as one compressed message; a broker counts those inside and a consumer
// gets them. What is bounded is then the compressed message: a set that would be
// larger than [Config.MaxMessageBytes] is split in halves, as often as need be,
// which stay together in one request. A message that only its compression makes
// too large goes as it is. A synchronous Send compresses in the goroutine of its
// caller, beside others; a batch is compressed by whoever completes it, one at a
// time.
//
// # Differences from Kafka 0.7
//
//   - Messages that are not compressed have magic 0, the paper's 9 bytes, where 0.7
//     writes magic 1. Each message set is a Produce request: coalescing does what
//     0.7's MultiProduce is for. There are no hooks and no handlers of one's own.
//   - In 0.7 a message that is written counts as sent, and a batch that fails is
//     logged and lost. Here each message is confirmed, or reported by an error.
//     Acknowledgements are an addition.
//   - A broker that fails keeps nothing that has not been written: a [Cluster] passes
//     it on. 0.7 loses what waits for that broker, or, if it is told to, sends it
//     again to the same one; what may have arrived is here never sent again.
//   - What waits is bounded in bytes, not in messages, and a batch is of one partition:
//     0.7's queue and batch are of one broker. A batch that is not full goes
//     [Config.QueueInterval] after its first message. A full queue makes Send wait,
//     where 0.7 drops unless it is told otherwise; that queue.enqueueTimeout.ms has
//     run out is an error here as there.
//   - A message without a key goes to one of the brokers that can be reached and
//     have room; in 0.7 to any of those that are registered.
//   - Messages with the same key stay in order also when their broker goes, and those
//     that come meanwhile wait. In 0.7 they go to another partition at once.
//   - The hash of a key has one exception, see [HashPartitioner].
//   - A static list is of addresses without ids, and with acks the producer picks the
//     partition, as it asks the brokers which they have.
//   - A connection that has served long enough is given up when all on it has been
//     confirmed, and has other defaults, see [DefaultReconnectInterval].
package producer
