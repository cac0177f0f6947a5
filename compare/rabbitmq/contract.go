package rabbitmq

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
	"kafkalab/results/resultfile"
)

// server is a running RabbitMQ, and what is needed to ask it.
type server struct {
	*launch.Server
	host   host.Host
	cookie string
	dist   int // port of Erlang's distribution, on loopback
}

// said is what the running server says of itself and of a queue.
type said struct {
	Version    string `json:"version"`
	Erlang     string `json:"erlang"`
	Limit      int64  `json:"limit"` // memory watermark, bytes
	Confirms   int    `json:"confirms"`
	Channels   int    `json:"channels"`
	Durable    bool   `json:"durable"`
	Type       string `json:"type"`
	Arguments  string `json:"arguments"`
	Policy     string `json:"policy"`
	Messages   int64  `json:"messages"`
	Persistent int64  `json:"persistent"`
	// Of the queue's first consumer; Consumers 0: there is none.
	Consumers int  `json:"consumers"`
	Acks      bool `json:"acks"`
	Prefetch  int  `json:"prefetch"`
}

// question is Erlang that is evaluated in the server: rabbitmqctl asks the same
// functions, but takes seconds to start. A function that a version lacks, or a
// queue's type, is caught and leaves a default. Text becomes JSON by ~p, whose
// quotes are escaped as JSON has them.
const question = `
S = fun(V) -> lists:flatten(io_lib:format("~0p", [lists:flatten(io_lib:format("~0p", [V]))])) end,
T = fun(V) -> lists:flatten(io_lib:format("~0p", [lists:flatten(io_lib:format("~s", [V]))])) end,
N = fun(V) when is_integer(V) -> integer_to_list(V); (_) -> "0" end,
B = fun(true) -> "true"; (_) -> "false" end,
P = fun(F, D) -> try F() catch _:_ -> D end end,
Q = P(fun() -> {ok, X} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%[1]s">>)), X end, none),
I = fun(K) -> P(fun() -> [{K, V}] = rabbit_amqqueue:info(Q, [K]), V end, none) end,
C = P(fun() -> rabbit_amqqueue:consumers(Q) end, []),
{A, F} = case C of [One | _] when is_tuple(One), tuple_size(One) >= 4 -> {element(3, One), element(4, One)}; _ -> {none, 0} end,
H = P(fun() -> [Y || Y <- rabbit_channel:list()] end, []),
K = length([Y || Y <- H, P(fun() -> [{confirm, Z}] = rabbit_channel:info(Y, [confirm]), Z end, false)]),
lists:flatten([
"{\"version\":", P(fun() -> T(rabbit_misc:version()) end, "\"\""), ",\"erlang\":", T(erlang:system_info(otp_release)),
",\"limit\":", N(P(fun() -> vm_memory_monitor:get_memory_limit() end, 0)),
",\"channels\":", N(length(H)), ",\"confirms\":", N(K),
",\"durable\":", B(I(durable)), ",\"type\":", S(I(type)), ",\"arguments\":", S(I(arguments)), ",\"policy\":", S(I(policy)),
",\"messages\":", N(I(messages)), ",\"persistent\":", N(I(messages_persistent)),
",\"consumers\":", N(length(C)), ",\"acks\":", B(A), ",\"prefetch\":", N(F), "}"]).
`

// ask evaluates the question in the server.
func (s *server) ask(ctx context.Context, queue string) (a said, err error) {
	if strings.ContainsAny(queue, "\"\\<>%\n") {
		return a, fmt.Errorf("rabbitmq: %q is no name of a queue", queue)
	}
	out, err := s.host.Run(ctx, "sh", "-c", askScript, "sh", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.dist)), s.cookie, fmt.Sprintf(question, queue))
	if err != nil {
		return a, fmt.Errorf("rabbitmq: asking the server: %w", err)
	}
	return parseSaid(string(out))
}

// askScript has the server at $1 evaluate $3. The address leads past the name
// server, whose port is not the usual one.
const askScript = `printf '%s' "$3" | erl_call -address "$1" -c "$2" -e`

// parseSaid reads what erl_call prints: {ok, "…"}, with the string as it is.
func parseSaid(text string) (a said, err error) {
	plain, ok := strings.CutPrefix(strings.TrimSpace(text), `{ok, "`)
	if ok {
		plain, ok = strings.CutSuffix(plain, `"}`)
	}
	if !ok {
		return a, fmt.Errorf("rabbitmq: the server answers %.300q", text)
	}
	if err := json.Unmarshal([]byte(plain), &a); err != nil {
		return a, fmt.Errorf("rabbitmq: the server answers %.300q: %w", text, err)
	}
	return a, nil
}

// Contract asks the running server for the measured queue, the messages in it,
// its consumers and the mode of its channels. What it does not know yet, since
// the queue is empty or nobody consumes, is what the client's options say.
func (s *server) Contract(ctx context.Context, m driver.Measurement) ([]resultfile.ContractRow, error) {
	opt, err := readOptions(m.Options)
	if err != nil {
		return nil, err
	}
	rows := []resultfile.ContractRow{opt.durabilityRow(), opt.flushRow(), opt.producerRow(), opt.consumerRow(), opt.prefetchRow(m.PayloadBytes)}
	a, err := s.ask(ctx, m.Queue)
	if err != nil {
		return rows, err
	}
	return append(a.rows(opt, m), rows...), nil // what was read back comes first, and counts
}

func (a said) rows(opt options, m driver.Measurement) []resultfile.ContractRow {
	queue := fmt.Sprintf("queue of type %s, durable: %t", strings.TrimPrefix(a.Type, "rabbit_"), a.Durable)
	if a.Arguments != "[]" && a.Arguments != "none" && a.Arguments != "" {
		queue += ", arguments " + a.Arguments
	}
	if a.Policy != "''" && a.Policy != "none" && a.Policy != "" && a.Policy != "[]" {
		queue += ", policy " + a.Policy
	}
	rows := []resultfile.ContractRow{
		{Row: driver.RowVersion, Value: fmt.Sprintf("RabbitMQ %s, Erlang %s", a.Version, a.Erlang), ReadBack: true},
		{Row: driver.RowQueue, Value: fmt.Sprintf("%s; memory watermark %d MiB", queue, a.Limit>>20), ReadBack: true},
	}
	if d, ok := a.durability(); ok {
		rows = append(rows, d)
	}
	if m.Work == resultfile.Produce && a.Channels > 0 && (a.Confirms > 0) != (opt.confirms != "none") {
		// Told otherwise than it is: the channel that says so counts.
		told := opt
		told.confirms = "none"
		if a.Confirms > 0 {
			told.confirms = "bulk"
		}
		opt = told
	}
	if m.Work == resultfile.Produce && a.Channels > 0 {
		r := opt.producerRow()
		r.ReadBack = true
		rows = append(rows, r)
	}
	if a.Consumers > 0 {
		is := opt
		is.manualAck, is.prefetch = a.Acks, a.Prefetch
		for _, r := range []resultfile.ContractRow{is.consumerRow(), is.prefetchRow(m.PayloadBytes)} {
			r.ReadBack = true
			rows = append(rows, r)
		}
	}
	return rows
}

// durability is what the messages in the queue are, if there are any. Quorum
// queues and streams store every message.
func (a said) durability() (resultfile.ContractRow, bool) {
	r := resultfile.ContractRow{Row: driver.RowDurability, ReadBack: true}
	kind := strings.TrimPrefix(a.Type, "rabbit_")
	switch {
	case strings.HasPrefix(kind, "quorum"), strings.HasPrefix(kind, "stream"):
		r.Value, r.Class = "every message is stored by this type of queue", driver.Persistent
	case a.Messages == 0:
		return r, false
	case a.Durable && a.Persistent == a.Messages:
		r.Value, r.Class = fmt.Sprintf("durable queue, all %d messages in it persistent", a.Messages), driver.Persistent
	default:
		r.Value, r.Class = fmt.Sprintf("%d of the %d messages in the queue persistent, queue durable: %t", a.Persistent, a.Messages, a.Durable), driver.Transient
	}
	return r, true
}

func (o options) durabilityRow() resultfile.ContractRow {
	if o.transient {
		return resultfile.ContractRow{Row: driver.RowDurability, Value: "transient messages (delivery mode 1)", Class: driver.Transient}
	}
	return resultfile.ContractRow{Row: driver.RowDurability, Value: "persistent messages (delivery mode 2)", Class: driver.Persistent}
}

// flushRow: a quorum queue flushes its log before it confirms, and a classic
// one when somebody waits for a confirm of a persistent message. Of transient
// ones there is nothing to flush.
func (o options) flushRow() resultfile.ContractRow {
	class := driver.FlushOS
	switch {
	case o.transient:
		class = ""
	case o.queue == "quorum" || o.confirms != "none" && !o.stream():
		class = driver.FlushEach
	}
	return resultfile.ContractRow{Row: driver.RowFlush, Value: o.flushing(), Class: class}
}

// producerRow: what a confirm promises depends on the queue and the message.
func (o options) producerRow() resultfile.ContractRow {
	r := resultfile.ContractRow{Row: driver.RowProducerAck, Value: "none", Class: driver.AckNone}
	if o.confirms == "none" {
		return r
	}
	switch {
	case o.stream():
		r.Value, r.Class = "publisher confirms, when a message is written", driver.AckAppended
	case o.transient:
		r.Value, r.Class = "publisher confirms, when a message is in the queue", driver.AckReceived
	default:
		r.Value, r.Class = "publisher confirms, when a message is on the disk", driver.AckFlushed
	}
	return r
}

func (o options) consumerRow() resultfile.ContractRow {
	if !o.manualAck {
		return driver.ConsumerAckRow("", 0)
	}
	return driver.ConsumerAckRow("manual", o.ackEvery)
}

// prefetchRow: a consumer without acknowledgements has no prefetch, and one of
// 0 is no bound.
func (o options) prefetchRow(payload int) resultfile.ContractRow {
	r := resultfile.ContractRow{Row: driver.RowPrefetch, Value: "no bound but TCP's", Class: "none"}
	if o.manualAck && o.prefetch > 0 {
		r.Value = fmt.Sprintf("%d messages", o.prefetch)
		r.Class = driver.PrefetchClass(int64(o.prefetch) * int64(max(payload, 1)))
	}
	return r
}
