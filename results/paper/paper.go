// Package paper holds the numbers that the paper itself gives ("Kafka: a
// Distributed Messaging System for Log Processing", Kreps, Narkhede and Rao,
// NetDB'11, June 2011), as data: its testbed, its experiments and its claims.
// What was measured here stands beside them; nothing is ever scaled to fit.
package paper

// The testbed of §5: two Linux machines of this kind with one link between
// them, one the broker, the other the producer or the consumer.
const (
	Cores            = 8
	CoreGHz          = 2
	MemoryGB         = 16
	Disks            = 6 // in RAID 10
	LinkMbps         = 1000
	ActiveMQVersion  = "5.4" // with KahaDB
	RabbitMQVersion  = "2.4"
	Messages         = 10_000_000
	PayloadBytes     = 200
	PrefetchMessages = 1_000   // of a pull, or
	PrefetchBytes    = 200_000 // about
)

// Bytes that a system adds to each message, and segment size (§3.1, §5).
const (
	KafkaOverheadBytes    = 9
	ActiveMQOverheadBytes = 144
	SegmentBytes          = 1 << 30
)

// Relation says how a claim's value is meant.
type Relation string

// The relations.
const (
	About    Relation = "about"
	AtLeast  Relation = "at least"
	MoreThan Relation = "more than"
	Exactly  Relation = "exactly"
	InWords  Relation = "in words" // the paper gives no number
)

// Claim is one statement of the paper that can be judged.
type Claim struct {
	ID        string // C1 to C22
	Section   string // of the paper
	Statement string // in our words
	Figure    string // "4" or "5"; "" if it is not read from a figure
	System    string // of which it speaks: "kafka", "activemq", "rabbitmq"
	Against   string // the system it is compared with, or ""
	Batch     int    // messages in a set, 0 where it does not matter
	Relation  Relation
	Value     float64 // 0 with InWords
	Unit      string
	Judged    string // by which measurement
}

// Claims returns the paper's claims in the order of their IDs. A claim that
// holds several numbers has an entry for each of them.
func Claims() []Claim {
	return []Claim{
		{ID: "C1", Section: "5", Figure: "4", System: "kafka", Batch: 1, Relation: About, Value: 50_000, Unit: "messages/s",
			Statement: "the producer sends 50,000 messages a second with a batch size of 1", Judged: "median rate"},
		{ID: "C2", Section: "5", Figure: "4", System: "kafka", Batch: 50, Relation: About, Value: 400_000, Unit: "messages/s",
			Statement: "the producer sends 400,000 messages a second with a batch size of 50", Judged: "median rate"},
		{ID: "C3", Section: "5", Figure: "4", System: "kafka", Against: "activemq", Relation: InWords,
			Statement: "the producer is orders of magnitude faster than that of ActiveMQ", Judged: "ratio, with its range"},
		{ID: "C4", Section: "5", Figure: "4", System: "kafka", Against: "rabbitmq", Relation: AtLeast, Value: 2, Unit: "times",
			Statement: "the producer is at least twice as fast as that of RabbitMQ", Judged: "ratio, with its range"},
		{ID: "C5", Section: "5", Figure: "4", System: "kafka", Batch: 50, Relation: About, Value: 669, Unit: "Mbit/s",
			Statement: "a batch size of 50 nearly saturates the link of 1 Gb/s (400,000 times 209 bytes is two thirds of it)", Judged: "share of the link's measured TCP goodput"},
		{ID: "C6", Section: "5", Figure: "4", System: "kafka", Batch: 50, Against: "kafka", Relation: About, Value: 8, Unit: "times",
			Statement: "a batch size of 50 is almost an order of magnitude faster than 1 (400,000 over 50,000)", Judged: "ratio"},
		{ID: "C7", Section: "5", Figure: "4", System: "kafka", Relation: InWords,
			Statement: "the producer does not wait for acknowledgements, which raises its throughput", Judged: "acknowledged against not"},
		{ID: "C8", Section: "5", System: "kafka", Relation: Exactly, Value: KafkaOverheadBytes, Unit: "bytes a message",
			Statement: "a message has an overhead of 9 bytes", Judged: "bytes on disk a message"},
		{ID: "C8", Section: "5", System: "activemq", Relation: Exactly, Value: ActiveMQOverheadBytes, Unit: "bytes a message",
			Statement: "a message of ActiveMQ has an overhead of 144 bytes", Judged: "bytes on disk a message"},
		{ID: "C8", Section: "5", System: "activemq", Against: "kafka", Relation: About, Value: 1.7, Unit: "times",
			Statement: "ActiveMQ needs 70 % more space for the same messages (344 over 209 bytes is 1.65)", Judged: "bytes on disk a message"},
		{ID: "C9", Section: "5", Figure: "5", System: "kafka", Relation: About, Value: 22_000, Unit: "messages/s",
			Statement: "the consumer takes 22,000 messages a second", Judged: "median rate"},
		{ID: "C9", Section: "5", Figure: "5", System: "kafka", Against: "activemq", Relation: MoreThan, Value: 4, Unit: "times",
			Statement: "the consumer is more than four times as fast as that of ActiveMQ", Judged: "ratio, with its range"},
		{ID: "C9", Section: "5", Figure: "5", System: "kafka", Against: "rabbitmq", Relation: MoreThan, Value: 4, Unit: "times",
			Statement: "the consumer is more than four times as fast as that of RabbitMQ", Judged: "ratio, with its range"},
		{ID: "C10", Section: "5", Figure: "5", System: "kafka", Relation: InWords,
			Statement: "the smaller format means fewer bytes from broker to consumer", Judged: "bytes on the wire a message"},
		{ID: "C11", Section: "5", Figure: "5", System: "kafka", Relation: Exactly, Value: 0, Unit: "bytes",
			Statement: "the broker writes nothing to disk while it serves a consumer; the others keep delivery state", Judged: "disk writes during the consumer test"},
		{ID: "C12", Section: "5", Figure: "5", System: "kafka", Relation: InWords,
			Statement: "sendfile makes the transfer cheaper", Judged: "processor time and system calls, sendfile against copying"},
		{ID: "C13", Section: "3.1", System: "kafka", Relation: InWords,
			Statement: "throughput does not fall with the size of the data, up to many TB", Judged: "rate at growing log size"},
		{ID: "C14", Section: "3.1", System: "kafka", Relation: InWords,
			Statement: "the page cache stays warm when the broker restarts", Judged: "consume before and after a restart, and with the cache dropped"},
		{ID: "C15", Section: "3.1", System: "kafka", Relation: InWords,
			Statement: "garbage collection costs very little, as messages are not cached in the process", Judged: "share of garbage collection, resident memory against data"},
		{ID: "C16", Section: "3.1", System: "kafka", Relation: InWords,
			Statement: "consumers a little behind the producer read from the page cache", Judged: "disk reads while tailing"},
		{ID: "C17", Section: "3.2", System: "kafka", Relation: InWords,
			Statement: "a rebalance settles after a few tries", Judged: "tries and time against the size of the group"},
		{ID: "C18", Section: "3.2", System: "kafka", Relation: InWords,
			Statement: "coordination is needed only when a rebalance is", Judged: "ZooKeeper requests while consuming"},
		{ID: "C19", Section: "3.3", System: "kafka", Relation: InWords,
			Statement: "mostly exactly once; messages repeat only after an unclean end", Judged: "counts under clean and unclean ends"},
		{ID: "C20", Section: "4", System: "kafka", Relation: About, Value: 10, Unit: "s",
			Statement: "10 seconds from end to end of the pipeline on average", Judged: "spread of the delay"},
		{ID: "C21", Section: "4", System: "kafka", Relation: Exactly, Value: 0, Unit: "messages lost",
			Statement: "the audit shows that nothing is lost over the pipeline", Judged: "audit, with and without an injected loss"},
		{ID: "C22", Section: "4", System: "kafka", Relation: About, Value: 1e9, Unit: "messages a day",
			Statement: "hundreds of GB and close to a billion messages a day", Judged: "sustained rate times 86,400 s"},
	}
}

// Mark is a rate that the paper gives, to be shown beside a figure.
type Mark struct {
	Label string
	Rate  float64 // messages per second
}

// Marks returns the rates of Kafka that the paper gives in the text for its
// Figure "4" or "5". The values behind its curves were not published.
func Marks(figure string) []Mark {
	var marks []Mark
	for _, c := range Claims() {
		if c.Figure != figure || c.Unit != "messages/s" {
			continue
		}
		m := Mark{Label: "Kafka", Rate: c.Value}
		switch c.Batch {
		case 1:
			m.Label = "Kafka, batch 1"
		case 50:
			m.Label = "Kafka, batch 50"
		}
		marks = append(marks, m)
	}
	return marks
}
