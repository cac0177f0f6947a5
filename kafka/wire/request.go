package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Produce is the body of a Produce request, and one entry of a MultiProduce.
// Partition -1 leaves the choice to the broker.
type Produce struct {
	Topic     []byte
	Partition int32
	Set       []byte
}

// AckedProduce is the body of an AckedProduce request.
type AckedProduce struct {
	Produce
	Acks      Acks
	TimeoutMs int32
}

// Fetch is the body of a Fetch request, and one entry of a MultiFetch.
type Fetch struct {
	Topic     []byte
	Partition int32
	Offset    int64
	MaxBytes  int32
}

// FetchMany is the body of a MultiFetch or WaitFetch request. The last two
// fields are WaitFetch's.
type FetchMany struct {
	Fetches   []Fetch
	MaxWaitMs int32
	MinBytes  int32 // counted over all entries
}

// Offsets is the body of an Offsets request. Time is milliseconds since the
// epoch, or [TimeLatest] or [TimeEarliest].
type Offsets struct {
	Topic     []byte
	Partition int32
	Time      int64
	MaxCount  int32
}

// CreateTopic is the body of a CreateTopic request.
type CreateTopic struct {
	Topic      []byte
	Partitions int32
}

// SplitRequest takes a request's frame, without its size field, apart.
func SplitRequest(frame []byte) (Type, []byte, error) {
	r := reader{b: frame}
	t := Type(r.i16())
	return t, r.b, r.err
}

func (r *reader) produce() (p Produce) {
	// All at once when it is all there: this is done for every message of a producer
	// that sends them one by one.
	if b := r.b; r.err == nil && len(b) >= minProduceEntry {
		topic := int(int16(binary.BigEndian.Uint16(b)))
		if at := minProduceEntry + topic; topic >= 0 && at <= len(b) {
			size := int(int32(binary.BigEndian.Uint32(b[at-4:])))
			if size >= 0 && size <= len(b)-at {
				r.b = b[at+size:]
				return Produce{Topic: b[2 : 2+topic : 2+topic], Partition: int32(binary.BigEndian.Uint32(b[at-8:])), Set: b[at : at+size : at+size]}
			}
		}
	}
	p.Topic = r.str()
	p.Partition = r.i32()
	p.Set = r.take(int(r.i32()))
	return p
}

func (r *reader) fetch() (f Fetch) {
	f.Topic = r.str()
	f.Partition = r.i32()
	f.Offset = r.i64()
	f.MaxBytes = r.i32()
	return f
}

// ParseProduce parses the body of a Produce request.
func ParseProduce(body []byte) (Produce, error) {
	r := reader{b: body}
	p := r.produce()
	return p, r.err
}

// ParseAckedProduce parses the body of an AckedProduce request.
func ParseAckedProduce(body []byte) (AckedProduce, error) {
	r := reader{b: body}
	p := AckedProduce{Produce: r.produce(), Acks: Acks(r.i16()), TimeoutMs: r.i32()}
	return p, r.err
}

// ParseFetch parses the body of a Fetch request.
func ParseFetch(body []byte) (Fetch, error) {
	r := reader{b: body}
	f := r.fetch()
	return f, r.err
}

// minimal sizes of an entry of a multi request, by which a count is checked
// against what is left of the frame before anything is allocated for it.
const (
	minProduceEntry = 2 + 4 + 4
	minFetchEntry   = 2 + 4 + 8 + 4
)

func (r *reader) count(entry int) int {
	n := int(r.i16())
	if r.err == nil && n < 0 {
		r.err = fmt.Errorf("%w: count %d", ErrNegative, n)
	}
	if r.err == nil && n*entry > len(r.b) {
		r.err = fmt.Errorf("%w: %d entries in %d bytes", ErrShort, n, len(r.b))
	}
	if r.err != nil {
		return 0
	}
	return n
}

// ParseMultiProduce parses the body of a MultiProduce request, appending its
// entries to dst.
func ParseMultiProduce(dst []Produce, body []byte) ([]Produce, error) {
	r := reader{b: body}
	for n := r.count(minProduceEntry); n > 0 && r.err == nil; n-- {
		dst = append(dst, r.produce())
	}
	return dst, r.err
}

// ParseMultiFetch parses the body of a MultiFetch request, appending its
// entries to dst.
func ParseMultiFetch(dst []Fetch, body []byte) (FetchMany, error) {
	r := reader{b: body}
	m := r.fetchMany(dst)
	return m, r.err
}

// ParseWaitFetch parses the body of a WaitFetch request, appending its entries
// to dst.
func ParseWaitFetch(dst []Fetch, body []byte) (FetchMany, error) {
	r := reader{b: body}
	m := r.fetchMany(dst)
	m.MaxWaitMs = r.i32()
	m.MinBytes = r.i32()
	return m, r.err
}

func (r *reader) fetchMany(dst []Fetch) FetchMany {
	for n := r.count(minFetchEntry); n > 0 && r.err == nil; n-- {
		dst = append(dst, r.fetch())
	}
	return FetchMany{Fetches: dst}
}

// ParseOffsets parses the body of an Offsets request.
func ParseOffsets(body []byte) (Offsets, error) {
	r := reader{b: body}
	o := Offsets{Topic: r.str(), Partition: r.i32(), Time: r.i64(), MaxCount: r.i32()}
	return o, r.err
}

// ParseTopics parses the body of a Topics request. No topics means all.
func ParseTopics(body []byte) ([][]byte, error) {
	r := reader{b: body}
	var topics [][]byte
	for n := r.count(2); n > 0 && r.err == nil; n-- {
		topics = append(topics, r.str())
	}
	return topics, r.err
}

// ParseCreateTopic parses the body of a CreateTopic request.
func ParseCreateTopic(body []byte) (CreateTopic, error) {
	r := reader{b: body}
	c := CreateTopic{Topic: r.str(), Partitions: r.i32()}
	return c, r.err
}

// ParseDeleteTopic parses the body of a DeleteTopic request.
func ParseDeleteTopic(body []byte) ([]byte, error) {
	r := reader{b: body}
	t := r.str()
	return t, r.err
}

// BeginRequest appends the size field, still empty, and the type of a request
// to dst. [EndRequest] fills the size in.
func BeginRequest(dst []byte, t Type) []byte {
	return appendI16(append(dst, 0, 0, 0, 0), int16(t))
}

// EndRequest writes the size of the frame that begins at position start of b.
func EndRequest(b []byte, start int) []byte {
	appendI32(b[:start], int32(len(b)-start-SizeSize))
	return b
}

// ProduceHeaderSize returns the bytes of a Produce request before its set:
// 16 and the topic's.
func ProduceHeaderSize(topic string) int {
	return SizeSize + TypeSize + 2 + len(topic) + 4 + 4
}

// AppendProduceHeader appends all of a Produce request but its set, which must
// follow with exactly setSize bytes.
func AppendProduceHeader(dst []byte, topic string, partition int32, setSize int) []byte {
	return appendProduceHeader(dst, TypeProduce, ProduceHeaderSize(topic)-SizeSize+setSize, topic, partition, setSize)
}

// appendProduceHeader appends what precedes the set, all at once.
func appendProduceHeader(dst []byte, t Type, size int, topic string, partition int32, setSize int) []byte {
	if len(topic) > MaxCount {
		panic("wire: string longer than an i16 can tell")
	}
	start, n := len(dst), ProduceHeaderSize(topic)
	if cap(dst)-start < n {
		dst = slices.Grow(dst, n)
	}
	dst = dst[:start+n]
	h := dst[start:]
	binary.BigEndian.PutUint32(h, uint32(size))
	binary.BigEndian.PutUint16(h[SizeSize:], uint16(t))
	h = h[SizeSize+TypeSize:]
	binary.BigEndian.PutUint16(h, uint16(len(topic)))
	h = h[2+copy(h[2:], topic):]
	binary.BigEndian.PutUint32(h, uint32(partition))
	binary.BigEndian.PutUint32(h[4:], uint32(setSize))
	return dst
}

// AppendProduce appends a Produce request.
func AppendProduce(dst []byte, topic string, partition int32, set []byte) []byte {
	return append(AppendProduceHeader(dst, topic, partition, len(set)), set...)
}

// ProduceEntry is one entry of a MultiProduce request to be sent.
type ProduceEntry struct {
	Topic     string
	Partition int32
	Set       []byte
}

// AppendMultiProduce appends a MultiProduce request of at most [MaxCount]
// entries.
func AppendMultiProduce(dst []byte, entries []ProduceEntry) []byte {
	start := len(dst)
	dst = appendI16(BeginRequest(dst, TypeMultiProduce), count16(len(entries)))
	for _, e := range entries {
		dst = appendStr(dst, e.Topic)
		dst = appendI32(dst, e.Partition)
		dst = appendI32(dst, int32(len(e.Set)))
		dst = append(dst, e.Set...)
	}
	return EndRequest(dst, start)
}

// AckedProduceSize returns the bytes that an AckedProduce request has beside
// its set: 22 and the topic's.
func AckedProduceSize(topic string) int { return ProduceHeaderSize(topic) + ackedTailSize }

const ackedTailSize = 2 + 4

// AppendAckedProduceHeader appends the part of an AckedProduce request before
// its set, which must follow with exactly setSize bytes; then comes
// [AppendAckedProduceTail].
func AppendAckedProduceHeader(dst []byte, topic string, partition int32, setSize int) []byte {
	return appendProduceHeader(dst, TypeAckedProduce, AckedProduceSize(topic)-SizeSize+setSize, topic, partition, setSize)
}

// AppendAckedProduceTail appends the part of an AckedProduce request behind
// its set.
func AppendAckedProduceTail(dst []byte, acks Acks, timeoutMs int32) []byte {
	return appendI32(appendI16(dst, int16(acks)), timeoutMs)
}

// AppendAckedProduce appends an AckedProduce request.
func AppendAckedProduce(dst []byte, topic string, partition int32, set []byte, acks Acks, timeoutMs int32) []byte {
	dst = append(AppendAckedProduceHeader(dst, topic, partition, len(set)), set...)
	return AppendAckedProduceTail(dst, acks, timeoutMs)
}

// FetchEntry is a Fetch request to be sent, or one entry of several.
type FetchEntry struct {
	Topic     string
	Partition int32
	Offset    int64
	MaxBytes  int32
}

func appendFetchEntry(dst []byte, e FetchEntry) []byte {
	dst = appendStr(dst, e.Topic)
	dst = appendI32(dst, e.Partition)
	dst = appendI64(dst, e.Offset)
	return appendI32(dst, e.MaxBytes)
}

// AppendFetch appends a Fetch request.
func AppendFetch(dst []byte, e FetchEntry) []byte {
	start := len(dst)
	return EndRequest(appendFetchEntry(BeginRequest(dst, TypeFetch), e), start)
}

// AppendMultiFetch appends a MultiFetch request of at most [MaxCount] entries.
func AppendMultiFetch(dst []byte, entries []FetchEntry) []byte {
	start := len(dst)
	return EndRequest(appendFetchEntries(BeginRequest(dst, TypeMultiFetch), entries), start)
}

// AppendWaitFetch appends a WaitFetch request of at most [MaxCount] entries.
func AppendWaitFetch(dst []byte, entries []FetchEntry, maxWaitMs, minBytes int32) []byte {
	start := len(dst)
	dst = appendFetchEntries(BeginRequest(dst, TypeWaitFetch), entries)
	dst = appendI32(dst, maxWaitMs)
	return EndRequest(appendI32(dst, minBytes), start)
}

func appendFetchEntries(dst []byte, entries []FetchEntry) []byte {
	dst = appendI16(dst, count16(len(entries)))
	for _, e := range entries {
		dst = appendFetchEntry(dst, e)
	}
	return dst
}

// AppendOffsets appends an Offsets request.
func AppendOffsets(dst []byte, topic string, partition int32, time int64, maxCount int32) []byte {
	start := len(dst)
	dst = appendStr(BeginRequest(dst, TypeOffsets), topic)
	dst = appendI32(dst, partition)
	dst = appendI64(dst, time)
	return EndRequest(appendI32(dst, maxCount), start)
}

// AppendTopics appends a Topics request for the named topics, or for all when
// none is named.
func AppendTopics(dst []byte, topics []string) []byte {
	start := len(dst)
	dst = appendI16(BeginRequest(dst, TypeTopics), count16(len(topics)))
	for _, t := range topics {
		dst = appendStr(dst, t)
	}
	return EndRequest(dst, start)
}

// AppendCreateTopic appends a CreateTopic request.
func AppendCreateTopic(dst []byte, topic string, partitions int32) []byte {
	start := len(dst)
	return EndRequest(appendI32(appendStr(BeginRequest(dst, TypeCreateTopic), topic), partitions), start)
}

// AppendDeleteTopic appends a DeleteTopic request.
func AppendDeleteTopic(dst []byte, topic string) []byte {
	start := len(dst)
	return EndRequest(appendStr(BeginRequest(dst, TypeDeleteTopic), topic), start)
}

func count16(n int) int16 {
	if n > MaxCount {
		panic(fmt.Sprintf("wire: %d entries, at most %d fit a request", n, MaxCount))
	}
	return int16(n)
}
