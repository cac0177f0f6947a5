package plots

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"kafkalab/results/resultfile"
)

// maker makes result folders of invented numbers. Whatever is drawn of them
// says that it is synthetic.
type maker struct {
	messages int64
	repeat   int
	scenario []resultfile.Scenario
	speeds   map[string]float64 // by system ID: messages per second
	capped   map[string]float64 // seconds
	outcome  func(a *resultfile.Attempt, points *[]resultfile.Point)
}

func newMaker() *maker {
	sys := func(id, label, driver, role string) resultfile.System {
		return resultfile.System{ID: id, Label: label, Driver: driver, Role: role, Settings: []resultfile.Setting{
			{Row: "version", Value: "synthetic " + driver + " 1.0"}, {Row: "persistence", Value: "invented | numbers"},
		}}
	}
	return &maker{
		messages: 1_000_000, repeat: 3,
		scenario: []resultfile.Scenario{
			{Name: "fig4-producer", Title: "Producer performance (synthetic)", Work: resultfile.Produce, PayloadBytes: 200,
				Limit: "invented", Systems: []resultfile.System{
					sys("limit", "Physical limit (raw TCP)", "rawlimit", "limit"),
					sys("kafka-b1", "Kafka, batch 1", "kafka", "system"), sys("kafka-b50", "Kafka, batch 50", "kafka", "system"),
					sys("rabbitmq", "RabbitMQ", "rabbitmq", "system"),
					sys("activemq-receipt", "ActiveMQ, receipt for each message", "activemq", "system"),
					sys("activemq", "ActiveMQ, no receipt", "activemq", "system"),
					sys("kafka-b1-plain", "Kafka, batch 1, one write per message", "kafka", "extra"),
					sys("rabbitmq-plain", "RabbitMQ, the library's plain socket", "rabbitmq", "extra"),
					sys("activemq-plain", "ActiveMQ, no receipt, the library's plain socket", "activemq", "extra"),
				}},
			{Name: "fig5-consumer", Title: "Consumer performance (synthetic)", Work: resultfile.Consume, PayloadBytes: 200,
				Limit: "invented", Systems: []resultfile.System{
					sys("kafka", "Kafka", "kafka", "system"), sys("rabbitmq", "RabbitMQ", "rabbitmq", "system"),
					sys("activemq", "ActiveMQ", "activemq", "system"), sys("limit", "Physical limit (raw TCP)", "rawlimit", "limit"),
				}},
		},
		speeds: map[string]float64{
			"kafka-b50": 556_000, "kafka-b1": 495_000, "rabbitmq": 31_000, "activemq": 22_000, "activemq-receipt": 3_900,
			"kafka-b1-plain": 110_000, "rabbitmq-plain": 27_000, "activemq-plain": 17_000, "limit": 562_000, "kafka": 553_000,
		},
		capped: map[string]float64{"activemq-receipt": 45},
	}
}

func (m *maker) make(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "synthetic-run")
	host := resultfile.Host{Name: "broker", Facts: []resultfile.Fact{
		{Name: "processor", Value: "Invented 9000"}, {Name: "cores", Value: "2"}, {Name: "memory", Value: "23.4 GiB"}, {Name: "kernel", Value: "Linux 6.1"}, {Name: "RAID", Value: "on no RAID"},
	}}
	started := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	w, err := resultfile.Create(dir, resultfile.Run{
		Started: started, Ended: started.Add(time.Hour), Commit: "0123456789abcdef0123", Command: "testbed run (synthetic: no system was measured)",
		Testbed:  resultfile.Testbed{Kind: "netns", Emulated: true, ClientHost: resultfile.Host{Name: "client", Facts: host.Facts}, BrokerHost: host, LinkGoodputMbps: 940.6, LinkReverseGoodputMbps: 941.2, LinkNote: "invented"},
		Messages: m.messages, Repeat: m.repeat, CapSeconds: 45, Scenarios: m.scenario,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rnd := rand.New(rand.NewPCG(1, 2)) // fixed: the figures are compared with golden ones
	order := 0
	for rep := 1; rep <= m.repeat; rep++ {
		for _, s := range m.scenario {
			for _, y := range s.Systems {
				order++
				m.put(t, w, rnd, s, y, rep, order, started)
			}
		}
	}
	return dir
}

func (m *maker) put(t testing.TB, w *resultfile.Writer, rnd *rand.Rand, s resultfile.Scenario, y resultfile.System, rep, order int, started time.Time) {
	t.Helper()
	speed := m.speeds[y.ID] * (1 + 0.06*(rnd.Float64()-0.5))
	var points []resultfile.Point
	sent, seconds := 0.0, 0.0
	points = append(points, resultfile.Point{})
	for int64(sent) < m.messages && (m.capped[y.ID] == 0 || seconds < m.capped[y.ID]) {
		now := speed * min(1, 0.75+seconds/4) * (1 + 0.25*(rnd.Float64()-0.5)) // messages a second
		step := min(0.05, (float64(m.messages)-sent)/now)
		seconds += step
		sent = min(float64(m.messages), math.Ceil(sent+now*step))
		points = append(points, resultfile.Point{Seconds: seconds, Messages: int64(sent), Bytes: int64(sent) * int64(s.PayloadBytes), Arrived: int64(sent)})
	}
	overhead := map[string]int64{"kafka": 9, "rabbitmq": 200, "activemq": 560, "rawlimit": 9}[y.Driver]
	n := int64(sent)
	a := resultfile.Attempt{
		ID: fmt.Sprintf("%s-%s-%d", s.Name, y.ID, rep), Scenario: s.Name, System: y.ID, Repetition: rep, Order: order, Started: started, Ended: started,
		Outcome: resultfile.Valid, Messages: n, PayloadBytes: n * 200, StoredBytes: n * (200 + overhead), Seconds: seconds,
		ClientMessages: n, ClientSeconds: seconds * 0.99, Verified: true, BrokerCPUSeconds: seconds * 0.9, ClientCPUSeconds: seconds * 0.3,
		StoreBytesAfter: n * (200 + overhead),
	}
	if m.outcome != nil {
		m.outcome(&a, &points)
	}
	if err := w.PutAttempt(a, points, nil); err != nil {
		t.Fatal(err)
	}
}

// drawArea is where newPlot's axes would hold the data, without drawing.
func drawArea(l layout, p *plot.Plot) draw.Canvas {
	c := draw.New(vgsvg.New(vg.Points(pageWidth), l.height))
	return p.DataCanvas(draw.Canvas{Canvas: c.Canvas, Rectangle: l.plot})
}
