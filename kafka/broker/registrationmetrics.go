package broker

import "github.com/prometheus/client_golang/prometheus"

// registrationCollector describes the registration in ZooKeeper at the moment when
// it is asked; nothing if the broker registers nowhere.
type registrationCollector struct{ s *Server }

var (
	descRegistered       = brokerDesc("registered", "1 if the broker's id is registered in ZooKeeper, 0 if it is not though it should be. Missing if the broker registers nowhere.")
	descRegisteredTopics = brokerDesc("registered_topics", "Topics registered in ZooKeeper.")
	descRegisterFailures = brokerDesc("registration_failures_total", "Attempts to register the broker or its topics that failed, and were repeated.")
	descZKSessions       = brokerDesc("zookeeper_sessions_total", "Sessions with ZooKeeper since the start.")
	descZKExpiries       = brokerDesc("zookeeper_expiries_total", "Sessions with ZooKeeper that have expired since the start; each took the registration along, which was then made again.")
	descZKConnects       = brokerDesc("zookeeper_connects_total", "Connections to ZooKeeper since the start.")
	descZKRequests       = brokerDesc("zookeeper_requests_total", "Requests sent to ZooKeeper since the start, without pings.")
)

func (c *registrationCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRegistered, descRegisteredTopics, descRegisterFailures, descZKSessions, descZKExpiries, descZKConnects, descZKRequests,
	} {
		ch <- d
	}
}

func (c *registrationCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.s.registration.Load()
	if g == nil {
		return
	}
	st := g.state()
	for _, v := range []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value float64
	}{
		{descRegistered, prometheus.GaugeValue, truth(st.registered)},
		{descRegisteredTopics, prometheus.GaugeValue, float64(st.topics)},
		{descRegisterFailures, prometheus.CounterValue, float64(st.failures)},
		{descZKSessions, prometheus.CounterValue, float64(st.stats.Sessions)},
		{descZKExpiries, prometheus.CounterValue, float64(st.stats.Expiries)},
		{descZKConnects, prometheus.CounterValue, float64(st.stats.Connects)},
		{descZKRequests, prometheus.CounterValue, float64(st.stats.Requests)},
	} {
		ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.value)
	}
}
