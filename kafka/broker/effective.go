package broker

import (
	"encoding/json"
	"net/http"
	"time"

	"kafkalab/kafka/storage"
)

// effective are the settings that a broker runs with, defaults included, as
// /config shows them: the flags of "kafka broker" with _ for -, times as flags
// take them ("1s"; "0s" is off), sizes in bytes.
type effective struct {
	Version string `json:"version"`

	BrokerID       int32  `json:"broker_id"`
	Listen         string `json:"listen"`
	LogDir         string `json:"log_dir"`
	MetricsListen  string `json:"metrics_listen"`
	ZooKeeper      string `json:"zk_connect"` // empty: none
	SessionTimeout period `json:"zk_session_timeout,omitzero"`
	Hostname       string `json:"hostname,omitempty"`

	NumPartitions   int32  `json:"num_partitions"`
	FlushMessages   int    `json:"flush_messages"`
	FlushInterval   period `json:"flush_interval"`
	Visible         string `json:"visible"`
	SegmentSize     int64  `json:"segment_size"`
	RollInterval    period `json:"roll_interval"`
	Retention       period `json:"retention"`
	RetentionSize   int64  `json:"retention_size"`
	CleanupInterval period `json:"cleanup_interval"`
	// Topics are those with settings of their own, which are all that stands
	// there.
	Topics map[string]effectiveTopic `json:"topics,omitempty"`

	Sendfile                 bool   `json:"sendfile"`
	MaxMessageSize           int    `json:"max_message_size"`
	MaxDecompressedSize      int    `json:"max_decompressed_size"`
	MaxRequestSize           int    `json:"max_request_size"`
	MaxRequestMemory         int64  `json:"max_request_memory"`
	MaxConnections           int    `json:"max_connections"`
	MaxConnectionsPerAddress int    `json:"max_connections_per_address"`
	SocketSendBuffer         int    `json:"socket_send_buffer"`
	SocketReceiveBuffer      int    `json:"socket_receive_buffer"`
	IdleTimeout              period `json:"idle_timeout"`
	ReadTimeout              period `json:"read_timeout"`
	WriteTimeout             period `json:"write_timeout"`
}

type effectiveTopic struct {
	NumPartitions int32   `json:"num_partitions,omitempty"`
	FlushMessages *int    `json:"flush_messages,omitempty"`
	FlushInterval *period `json:"flush_interval,omitempty"`
	SegmentSize   int64   `json:"segment_size,omitempty"`
	RollInterval  *period `json:"roll_interval,omitempty"`
	Retention     *period `json:"retention,omitempty"`
	RetentionSize *int64  `json:"retention_size,omitempty"`
}

// period is a time that JSON shows as flags take it.
type period time.Duration

func (p period) MarshalText() ([]byte, error) { return []byte(time.Duration(p).String()), nil }

// effective returns the settings, without what is no setting: loggers, hooks,
// the seams of tests.
func (c *Config) effective() effective {
	s := &c.Storage
	e := effective{
		Version:  c.Version,
		BrokerID: c.ID, Listen: c.Listen, LogDir: c.LogDir, MetricsListen: c.MetricsListen,
		NumPartitions: s.DefaultPartitions,
		FlushMessages: s.FlushMessages, FlushInterval: period(s.FlushInterval), Visible: s.Visible.String(),
		SegmentSize: s.SegmentBytes, RollInterval: period(s.RollInterval),
		Retention: period(s.RetentionAge), RetentionSize: s.RetentionBytes, CleanupInterval: period(s.CleanupInterval),
		Sendfile:       c.Sendfile,
		MaxMessageSize: c.MaxMessageBytes, MaxDecompressedSize: c.MaxDecompressedBytes,
		MaxRequestSize: c.MaxRequestBytes, MaxRequestMemory: c.MaxRequestMemoryBytes,
		MaxConnections: c.MaxConnections, MaxConnectionsPerAddress: c.MaxConnectionsPerAddress,
		SocketSendBuffer: c.SendBufferBytes, SocketReceiveBuffer: c.ReceiveBufferBytes,
		IdleTimeout: period(c.IdleTimeout), ReadTimeout: period(c.ReadTimeout), WriteTimeout: period(c.WriteTimeout),
	}
	if c.ZooKeeper.Servers != "" {
		e.ZooKeeper, e.SessionTimeout, e.Hostname = c.ZooKeeper.Servers, period(c.ZooKeeper.SessionTimeout), c.AdvertisedHost
	}
	for name, t := range s.Topics {
		if e.Topics == nil {
			e.Topics = make(map[string]effectiveTopic, len(s.Topics))
		}
		e.Topics[name] = effectiveOf(t)
	}
	return e
}

func effectiveOf(t storage.TopicConfig) effectiveTopic {
	return effectiveTopic{
		NumPartitions: t.Partitions, FlushMessages: t.FlushMessages, FlushInterval: (*period)(t.FlushInterval),
		SegmentSize: t.SegmentBytes, RollInterval: (*period)(t.RollInterval), Retention: (*period)(t.RetentionAge), RetentionSize: t.RetentionBytes,
	}
}

// config answers with the settings that the broker runs with.
func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s.cfg.effective()) // fails only when the peer is gone
}
