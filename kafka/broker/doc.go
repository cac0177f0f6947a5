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
// # Buffers
//
// An idle connection holds no buffer. A busy one reads into 16 KiB and gets a
// buffer four times as large, up to 1 MiB, when it filled the last one. Only a
// single request that is larger makes a buffer grow further, by doubling as
// its bytes arrive, so that a length alone never claims memory.
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
// message above the size limit is dropped and the connection stays open. The
// additions (types 16 to 20) answer with an error code and stay open. A frame
// that is no request closes the connection.
package broker
