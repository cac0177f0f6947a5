// Package paper holds the numbers that the paper itself gives ("Kafka: a
// Distributed Messaging System for Log Processing", Kreps, Narkhede and Rao,
// NetDB'11, June 2011) and that figures and tables show beside what was
// measured here; nothing is ever scaled to fit. Its claims, and how they are
// judged, are in paper/claims.toml.
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

// The rates of Kafka that the text gives, in messages per second (§5).
const (
	ProducerRateBatch1  = 50_000
	ProducerRateBatch50 = 400_000
	ConsumerRate        = 22_000
)

// Mark is a rate that the paper gives, to be shown beside a figure.
type Mark struct {
	Label string
	Rate  float64 // messages per second
}

// Marks returns the rates of Kafka that the paper gives in the text for its
// Figure "4" or "5". The values behind its curves were not published.
func Marks(figure string) []Mark {
	switch figure {
	case "4":
		return []Mark{{"Kafka, batch 1", ProducerRateBatch1}, {"Kafka, batch 50", ProducerRateBatch50}}
	case "5":
		return []Mark{{"Kafka", ConsumerRate}}
	}
	return nil
}
