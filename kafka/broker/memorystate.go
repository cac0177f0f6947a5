package broker

import "github.com/prometheus/client_golang/prometheus"

// memoryCollector describes the memory of the connections at the moment when it
// is asked.
type memoryCollector struct{ memory *memory }

func memoryDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_broker_request_memory_"+name, help, nil, nil)
}

var (
	descMemoryInUse   = memoryDesc("bytes", "Bytes of read buffers in use, but for the smallest ones, of 16 KiB.")
	descMemoryWaiting = memoryDesc("waiting", "Connections whose requests wait for memory.")
	descMemoryWaits   = memoryDesc("waits_total", "Requests that had to wait for memory.")
	descMemoryWaited  = memoryDesc("wait_seconds_total", "Time that requests have waited for memory; of those that wait now, nothing yet.")
	descMemoryRefused = memoryDesc("refused_total", "Connections closed because their request got no memory within the read time-out.")
	descMemoryEvicted = memoryDesc("evicted_total", "Connections closed because they were slow, or stood still, while others waited for the memory that they held.")
)

func (c *memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMemoryInUse, descMemoryWaiting, descMemoryWaits, descMemoryWaited, descMemoryRefused, descMemoryEvicted} {
		ch <- d
	}
}

func (c *memoryCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.memory.state()
	for _, v := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{descMemoryInUse, prometheus.GaugeValue, float64(s.inUse)},
		{descMemoryWaiting, prometheus.GaugeValue, float64(s.waiting)},
		{descMemoryWaits, prometheus.CounterValue, float64(s.waits)},
		{descMemoryWaited, prometheus.CounterValue, s.waited.Seconds()},
		{descMemoryRefused, prometheus.CounterValue, float64(s.refused)},
		{descMemoryEvicted, prometheus.CounterValue, float64(s.evicted)},
	} {
		ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.value)
	}
}
