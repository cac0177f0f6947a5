// Package broker is the server that holds partitions and answers producers and
// consumers (NetDB'11 §3.1), over the protocol of package wire.
//
// # One connection, one goroutine
//
// Each connection is read by one goroutine, which handles requests in order:
//
//	read(2) into a pooled buffer
//	  └ for every complete request in it
//	      Produce, MultiProduce, AckedProduce → join or start the group
//	      anything else → append the group, then answer
//	    append the group, send the gathered answers
//
// A group is what makes small requests cheap: the message sets of consecutive
// produce requests for one partition are checked where they lie, slid together
// over the headers between them, and appended with one write and one
// publication. A group ends at a request for another partition, at one that
// needs an answer from the log, and at the end of the buffer's complete
// requests.
//
// Two things run beside that goroutine, and only while they are needed: the
// answerer, which waits for the flushes that answers to AckedProduce stand for
// so that later requests can be appended meanwhile, and the watch for a peer
// that closes while a WaitFetch waits.
//
// # Memory
//
// An idle connection holds no buffer, and neither does one that waits for
// messages. A busy one reads into 16 KiB and is lent a larger buffer, up to
// 1 MiB, when it filled the last one. A request that is larger than its buffer
// gets one of its own size, but not before 16 KiB of it have come: a length
// alone never claims memory. All of it together is bounded by
// [Config.MaxRequestMemoryBytes]; beyond that requests wait for one another,
// in their order, see the type memory. What is read lies outside of the heap, so
// that the collector has next to nothing to do, and the process stays as large
// as that bound and some, however much is stored.
//
// What compressed messages are decompressed into to check them is beside that
// bound: each set that is being checked decompresses one message at a time, so
// that there are about GOMAXPROCS times [Config.MaxDecompressedBytes] of it at
// worst, as many as the processors work on at once.
//
// # Slow and hostile peers
//
// A connection that waits, for its peer or for the disk, holds no lock that
// another needs. It ends when its peer stands still for longer than the
// time-outs allow: between requests (off by default), in the middle of one, in
// the middle of an answer. Two limits keep one peer from taking what others
// need: the number of connections, in all and from one address, and the rule
// that who holds memory which others wait for must be done with it in about two
// seconds, see stallTime. Of those who are slower, the slowest are cut off, no
// more than the others need. Who is slow while nobody waits stays.
//
// # Fetches
//
// The bytes of a fetch go from the segment file to the socket with sendfile
// and an explicit offset, and never enter the process. Without it (the
// setting, or a file system in memory) they are copied through a pooled
// buffer; the bytes on the wire are the same.
//
// # Bad input
//
// As Kafka 0.7: a produce or offsets request that cannot be carried out closes
// the connection without an answer, after everything before it was appended
// and answered; a fetch is answered with an error code per entry. A set with a
// message above the size limit, or with a compressed one that holds more than is
// allowed, is dropped and the connection stays open. Compressed messages are
// decompressed to check and count those inside, and are stored as they came; one
// that cannot be decompressed is refused like one whose checksum is wrong. The
// additions (types 16 to 20) answer with an error code and stay open. A frame
// that is no request closes the connection.
//
// # Registration
//
// With a ZooKeeper a broker first waits for a session there, then it serves, and then
// it registers its id, and its topics as they come into being (NetDB'11 §3.2). A new
// session registers all of it again. Nothing that serves clients waits for that:
// while ZooKeeper is away the broker goes on, and registers what has happened
// meanwhile when it is back.
//
// # Differences from Kafka 0.7
//
//   - A fetch of a negative number of bytes is answered with the code -1, where
//     0.7 sends a frame that makes no sense.
//   - A partition whose disk fails goes out of service, and a fetch of it that
//     cannot be carried out has the code 18, which clients of 0.7 take for an
//     unknown error. 0.7 halts the process.
//   - A set with a compressed message that holds too much is dropped, like one
//     with too large a message. 0.7 has no such bound.
//   - A topic's name has at most 249 bytes, so that a folder can be named after
//     it and any of its partitions; 0.7 says 255 characters, and cannot make the
//     folder of the longest.
//   - The number of connections, and the memory for their requests, have bounds.
//   - A broker that finds its own node of an older session takes it over: the file
//     broker.creator in the log folder tells its registrations from those of a
//     foreign broker with the same id. 0.7 fails to start on either (fault B14).
//   - A log folder in which a broker has registered belongs to its id, by the file
//     broker.id: with another id the start fails, as the offsets that groups have
//     committed would be those of other messages.
//   - A registration that fails is tried again, and one that somebody deletes is made
//     again. 0.7 logs the first, and does not notice the second.
//   - Topics can be created and deleted. One that is deleted is taken out of ZooKeeper
//     with its owners and offsets.
//
// # Metrics and health
//
// With a metrics address the broker serves /metrics, in the format of
// Prometheus, and /healthz, from the begin of its start to the end of its stop.
// /healthz answers "ready", or with status 503 and a line for each reason why
// not: how many logs of how many are open yet, partitions out of service by
// name, and those in service whose last append failed, a disk that has no room
// for one more message or does not answer, the stop. With ?json, or an Accept
// header that says so, the same comes as JSON.
//
// Counters by topic begin with the first use of the topic and go with its
// deletion. The first thousand topics have their own, the first two thousand
// partitions are described one by one; what is beyond that is summed up. Nothing
// that is asked for waits for a disk longer than a quarter of a second.
package broker
