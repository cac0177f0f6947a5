package broker

import (
	"errors"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
)

// maxPartitionSeries is how many partitions are described one by one, so that a
// topic with a hundred thousand of them does not make an answer of /metrics
// that takes more memory than the broker.
const maxPartitionSeries = 2000

// stateCollector describes the broker and its logs at the moment when it is
// asked. It takes no lock that is held while a disk works.
type stateCollector struct{ s *Server }

func brokerDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("kafka_broker_"+name, help, labels, nil)
}

func logDesc(name, help string) *prometheus.Desc {
	return brokerDesc("log_"+name, help, "topic", "partition")
}

var (
	descReady        = brokerDesc("ready", "1 if /healthz says ready, 0 if it says why not.")
	descStartSeconds = brokerDesc("start_duration_seconds", "Time that the start took, or has taken so far.")
	descFound        = brokerDesc("start_logs_found", "Partition folders found at the start.")
	descOpened       = brokerDesc("start_logs_opened", "Partition folders opened by the start so far.")
	descRecovered    = brokerDesc("start_logs_recovered", "Logs that the start looked through for a bad tail, as the last stop had not been clean.")
	descCuts         = brokerDesc("recovery_cuts_total", "Bad tails cut off logs, by the start or after a failed flush.")
	descCutBytes     = brokerDesc("recovery_cut_bytes_total", "Bytes of the bad tails cut off logs.")
	descConnsLimit   = brokerDesc("connections_limit", "Connections that may be open at once; 0 is no bound.")
	descDiskFree     = brokerDesc("disk_free_bytes", "Bytes free on the file system of the log folder. Missing while that does not answer.")
	descDiskSize     = brokerDesc("disk_size_bytes", "Size of the file system of the log folder.")
	descTopics       = brokerDesc("topics", "Topics.")
	descPartitions   = brokerDesc("partitions", "Partitions that have a log.")
	descOutOfService = brokerDesc("partitions_out_of_service", "Partitions that take no appends, after a failed write or flush or because of damage.")
	descFailing      = brokerDesc("partitions_failing", "Partitions in service whose last append failed, within the last five minutes.")
	descNotShown     = brokerDesc("partitions_not_shown", "Partitions beyond the first "+strconv.Itoa(maxPartitionSeries)+", which have no kafka_broker_log metrics.")

	descFirst     = logDesc("first_offset", "Smallest offset that can be fetched.")
	descWatermark = logDesc("watermark_offset", "Exclusive end of what is visible.")
	descEnd       = logDesc("end_offset", "Exclusive end of what is appended.")
	descFlushed   = logDesc("flushed_offset", "Exclusive end of what is flushed.")
	descSegments  = logDesc("segments", "Segment files.")
	descBytes     = logDesc("size_bytes", "Bytes from the first offset to the end.")
	descFailed    = logDesc("append_failed", "1 if the partition is in service and its last append failed, until one succeeds or none is tried for five minutes.")
	descInService = logDesc("in_service", "1 if the partition takes appends, 0 after a failed write or flush or because of damage.")
)

func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descReady, descStartSeconds, descFound, descOpened, descRecovered, descCuts, descCutBytes, descConnsLimit, descDiskFree, descDiskSize,
		descTopics, descPartitions, descOutOfService, descFailing, descNotShown,
		descFirst, descWatermark, descEnd, descFlushed, descSegments, descBytes, descFailed, descInService,
	} {
		ch <- d
	}
}

func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	s, start := c.s, &c.s.start
	room, diskErr := s.disk.look() // once: it may hang
	h := s.healthWith(room, diskErr)
	gauge(descReady, truth(h.Ready))
	gauge(descStartSeconds, start.duration().Seconds())
	gauge(descFound, float64(start.found.Load()))
	gauge(descOpened, float64(start.opened.Load()))
	gauge(descRecovered, float64(start.recovered.Load()))
	ch <- prometheus.MustNewConstMetric(descCuts, prometheus.CounterValue, float64(start.cuts.Load()))
	ch <- prometheus.MustNewConstMetric(descCutBytes, prometheus.CounterValue, float64(start.cutBytes.Load()))
	gauge(descConnsLimit, float64(s.cfg.MaxConnections))
	if diskErr == nil {
		gauge(descDiskFree, float64(room.free))
		gauge(descDiskSize, float64(room.size))
	}
	c.collectLogs(ch, gauge, &h)
}

func (c *stateCollector) collectLogs(ch chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64), h *health) {
	manager := c.s.opened.Load()
	if manager == nil {
		return // the start is not that far
	}
	logs := manager.Logs()
	for _, l := range logs[:min(len(logs), maxPartitionSeries)] {
		inService, failed := l.OutOfService() == nil, l.AppendFailure() != nil
		st := l.State()
		topic, partition := l.Topic(), strconv.Itoa(int(l.Partition()))
		for _, v := range []struct {
			desc  *prometheus.Desc
			value float64
		}{
			{descFirst, float64(st.First)}, {descWatermark, float64(st.Watermark)}, {descEnd, float64(st.LogEnd)}, {descFlushed, float64(st.Flushed)},
			{descSegments, float64(st.Segments)}, {descBytes, float64(st.Bytes)}, {descFailed, truth(failed)}, {descInService, truth(inService)},
		} {
			ch <- prometheus.MustNewConstMetric(v.desc, prometheus.GaugeValue, v.value, topic, partition)
		}
	}
	gauge(descTopics, float64(len(manager.Topics())))
	gauge(descPartitions, float64(len(logs)))
	gauge(descOutOfService, float64(h.OutOfService))
	gauge(descFailing, float64(h.Failing))
	gauge(descNotShown, float64(max(len(logs)-maxPartitionSeries, 0)))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// diskPatience is how long a question for the room on the disk may take. A disk
// or a server of files that hangs keeps nobody waiting longer.
const diskPatience = 250 * time.Millisecond

// errDiskHangs says that the disk did not answer in time.
var errDiskHangs = errors.New("the disk does not answer")

// diskRoom asks for the room on the file system of a folder. Its methods may be
// called concurrently.
type diskRoom struct {
	dir    string
	statfs func(dir string) (room, error)

	mu     sync.Mutex
	answer chan struct{} // closed with the answer to the question under way; nil: there is none
	last   room
	err    error
}

// room is what a file system has, in bytes.
type room struct{ free, size uint64 }

// look returns the room there is. When the disk hangs, one goroutine waits for
// it, however often it is asked.
func (d *diskRoom) look() (room, error) {
	d.mu.Lock()
	answer := d.answer
	if answer == nil {
		answer = make(chan struct{})
		d.answer = answer
		go d.ask(answer)
	}
	d.mu.Unlock()
	select {
	case <-answer:
	case <-time.After(diskPatience):
		return room{}, errDiskHangs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.err
}

func (d *diskRoom) ask(answer chan struct{}) {
	r, err := d.statfs(d.dir)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last, d.err, d.answer = r, err, nil
	close(answer)
}

func statfs(dir string) (room, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return room{}, err
		}
		break
	}
	free := st.Bavail
	if os.Geteuid() == 0 {
		free = st.Bfree // what is kept back, is kept for root
	}
	return room{free: free * uint64(st.Frsize), size: st.Blocks * uint64(st.Frsize)}, nil
}
