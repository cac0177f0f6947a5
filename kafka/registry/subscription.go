package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a subscription (inclusive). Members of a group make a list of all
// streams of all members, so a number that is too large in one node would
// exhaust the memory of all.
const (
	MaxStreams         = 10_000  // of a topic, in one consumer
	MaxTopics          = 10_000  // that one subscription names
	maxSubscribedBytes = 1 << 20 // the value of a node: ZooKeeper's own bound
)

// Subscription says which topics a consumer wants and how many streams of each.
// Either it names the topics, or it has a pattern: a white list wants the topics
// whose whole name matches it, a black list all others. The zero value wants
// nothing. It does not change once it is made.
//
// Its text is the value of the consumer's node, as Kafka 0.7 writes it: names as
// `{ "topic1": 2,"topic2": 1 }`, a white list of 4 streams as `*4*white.*`, a
// black list as `!4!black.*`.
type Subscription struct {
	named map[string]int

	list    listKind
	pattern pattern
	streams int // of each topic that the list lets through
}

type listKind byte

const (
	noList    listKind = 0
	whiteList listKind = '*'
	blackList listKind = '!'
)

// Static returns the subscription of named topics, with the number of streams of
// each, 1 to [MaxStreams].
func Static(streams map[string]int) (Subscription, error) {
	if len(streams) == 0 {
		return Subscription{}, errors.New("subscription to no topic: name one at least")
	}
	s := Subscription{named: maps.Clone(streams)}
	if err := s.checkNamed(); err != nil {
		return Subscription{}, err
	}
	if n := len(s.Text()); n > maxSubscribedBytes {
		return Subscription{}, fmt.Errorf("subscription of %d bytes: a node holds at most %d", n, maxSubscribedBytes)
	}
	return s, nil
}

func (s Subscription) checkNamed() error {
	if len(s.named) > MaxTopics {
		return fmt.Errorf("subscription to %d topics: at most %d are possible", len(s.named), MaxTopics)
	}
	for _, topic := range slices.Sorted(maps.Keys(s.named)) {
		if err := checkName("topic", topic); err != nil {
			return err
		}
		if err := checkStreams(s.named[topic]); err != nil {
			return fmt.Errorf("topic %s: %w", topic, err)
		}
	}
	return nil
}

func checkStreams(n int) error {
	if n < 1 || n > MaxStreams {
		return fmt.Errorf("%d streams: must be from 1 to %d", n, MaxStreams)
	}
	return nil
}

// WhiteList returns the subscription to all topics whose whole name matches a
// regular expression, with so many streams of each, 1 to [MaxStreams]. The
// expression is first normalised as 0.7 does it: what is around it is trimmed,
// each ',' becomes '|', blanks are dropped, and quotes around it are stripped, so
// that "clicks, views" is a list of two names. Which expressions are taken is said
// at [CheckPattern].
func WhiteList(expression string, streams int) (Subscription, error) {
	return filter(whiteList, expression, streams)
}

// BlackList returns the subscription to all topics that [WhiteList] does not take.
func BlackList(expression string, streams int) (Subscription, error) {
	return filter(blackList, expression, streams)
}

func filter(kind listKind, expression string, streams int) (Subscription, error) {
	if err := checkStreams(streams); err != nil {
		return Subscription{}, err
	}
	p, err := compilePattern(expression)
	if err != nil {
		return Subscription{}, err
	}
	if p.text == "" {
		return Subscription{}, errors.New("the pattern for topics is empty: for all topics give the white list .*")
	}
	return Subscription{list: kind, pattern: p, streams: streams}, nil
}

// Wildcard tells whether the subscription is a white or a black list.
func (s Subscription) Wildcard() bool { return s.list != noList }

// Topics returns the topics that are named, sorted; none for a list.
func (s Subscription) Topics() []string { return slices.Sorted(maps.Keys(s.named)) }

// Matches tells whether the subscription wants a topic.
func (s Subscription) Matches(topic string) bool { return s.Streams(topic) > 0 }

// Streams returns how many streams of a topic the subscription wants, 0 if it does
// not want it.
func (s Subscription) Streams(topic string) int {
	switch {
	case s.list == noList:
		return s.named[topic]
	case s.pattern.matches(topic) == (s.list == whiteList):
		return s.streams
	}
	return 0
}

// Text returns the value of the consumer's node.
func (s Subscription) Text() string {
	if s.list != noList {
		k := string(rune(s.list))
		return k + strconv.Itoa(s.streams) + k + s.pattern.text
	}
	var b strings.Builder
	b.WriteString("{ ")
	for i, topic := range s.Topics() {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		_, _ = jsonEscapes.WriteString(&b, topic) // a Builder takes all
		b.WriteString(`": `)
		b.WriteString(strconv.Itoa(s.named[topic]))
	}
	b.WriteString(" }")
	return b.String()
}

// jsonEscapes are the signs of a topic name that JSON does not take as they are.
// (0.7 writes those too, and cannot read it then.)
var jsonEscapes = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

func (s Subscription) String() string { return s.Text() }

// ParseSubscription reads the value of a consumer's node.
func ParseSubscription(text string) (Subscription, error) {
	if len(text) > maxSubscribedBytes {
		return Subscription{}, fmt.Errorf("subscription of %d bytes: at most %d are possible", len(text), maxSubscribedBytes)
	}
	if text != "" && (listKind(text[0]) == whiteList || listKind(text[0]) == blackList) {
		return parseList(text)
	}
	s, err := parseNamed(text)
	if err == nil {
		err = s.checkNamed()
	}
	if err != nil {
		return Subscription{}, fmt.Errorf("subscription %.100q: %w", text, err)
	}
	return s, nil
}

// parseList reads "*streams*pattern" or "!streams!pattern". An empty pattern is
// taken, as a consumer of 0.7 can have it.
func parseList(text string) (Subscription, error) {
	kind := text[:1]
	digits, expression, ok := strings.Cut(text[1:], kind)
	streams, err := parseNumber(digits, MaxStreams)
	if !ok || err != nil || streams == 0 {
		return Subscription{}, fmt.Errorf("subscription %.100q is not %[2]sstreams%[2]spattern with 1 to %[3]d streams", text, kind, MaxStreams)
	}
	p, err := compilePattern(expression)
	if err != nil {
		return Subscription{}, fmt.Errorf("subscription %.100q: %w", text, err)
	}
	return Subscription{list: listKind(kind[0]), pattern: p, streams: int(streams)}, nil
}

// parseNamed reads a JSON object of whole numbers. Go's own decoding into a map
// would take a topic that stands there twice.
func parseNamed(text string) (Subscription, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	errForm := errors.New("neither a JSON object of topics and numbers nor a white or black list")
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return Subscription{}, errForm
	}
	named := map[string]int{}
	for d.More() {
		key, err := d.Token()
		topic, isName := key.(string)
		if err != nil || !isName {
			return Subscription{}, errForm
		}
		value, err := d.Token()
		number, isNumber := value.(json.Number)
		if err != nil || !isNumber {
			return Subscription{}, fmt.Errorf("topic %.60q has no number of streams", topic)
		}
		streams, err := parseNumber(number.String(), MaxStreams)
		if err != nil {
			return Subscription{}, fmt.Errorf("streams of topic %.60q: %w", topic, err)
		}
		if _, twice := named[topic]; twice {
			return Subscription{}, fmt.Errorf("topic %.60q is there twice", topic)
		}
		named[topic] = int(streams)
	}
	if t, err := d.Token(); err != nil || t != json.Delim('}') {
		return Subscription{}, errForm
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Subscription{}, errors.New("something follows the JSON object")
	}
	return Subscription{named: named}, nil
}
