package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"kafkalab/kafka/storage"
)

// start is what the start of a broker has found so far. It is written by the
// hooks of storage, on many goroutines.
type start struct {
	began                     time.Time
	took                      atomic.Int64 // ns; 0: not over yet
	clean                     atomic.Bool  // the last stop was clean
	listed                    atomic.Bool  // found and clean are known
	found                     atomic.Int64 // partition folders
	opened                    atomic.Int64
	recovered, cuts, cutBytes atomic.Int64
	toldAt                    atomic.Int64 // when the log last told how far it is, ns since began
}

// tellEvery is how often a start that takes long says how far it is.
const tellEvery = 5 * time.Second

// duration returns how long the start took, or has taken so far.
func (t *start) duration() time.Duration {
	if took := t.took.Load(); took > 0 {
		return time.Duration(took)
	}
	return time.Since(t.began)
}

// hooks returns what storage calls.
func (s *Server) hooks() storage.Hooks {
	t := &s.start
	return storage.Hooks{
		Found: func(folders int, clean bool) {
			t.found.Store(int64(folders))
			t.clean.Store(clean)
			t.listed.Store(true)
			s.log.Info("opening log folder", "log_dir", s.cfg.LogDir, "partitions", folders, "clean_stop", clean)
		},
		Opened: func(_ *storage.Log, recovered bool) {
			if recovered {
				t.recovered.Add(1)
			}
			opened := t.opened.Add(1)
			since, told := time.Since(t.began), t.toldAt.Load()
			if since-time.Duration(told) > tellEvery && t.toldAt.CompareAndSwap(told, int64(since)) {
				s.log.Info("opening log folder goes on", "partitions", t.found.Load(), "opened", opened, "recovered", t.recovered.Load(), "took", since)
			}
		},
		Cut: func(_ *storage.Log, _, bytes int64) {
			t.cuts.Add(1)
			t.cutBytes.Add(bytes)
		},
		Flushed: func(_ *storage.Log, took time.Duration, err error) {
			s.metrics.flushes.observe(took, 1)
			if err != nil {
				s.metrics.failedFlushes.Inc()
			}
		},
		Deleted: func(l *storage.Log, segments int, bytes int64) { s.metrics.topic(l).deleted(segments, bytes) },
	}
}

// tellOpened says what was found in the log folder.
func (s *Server) tellOpened() {
	logs := s.logs.Logs()
	segments, out, bytes := 0, 0, int64(0)
	for _, l := range logs {
		st := l.State()
		segments += st.Segments
		bytes += st.Bytes
		if l.OutOfService() != nil {
			out++
		}
	}
	t := &s.start
	s.log.Info("log folder opened", "log_dir", s.cfg.LogDir, "clean_stop", t.clean.Load(), "topics", len(s.logs.Topics()), "partitions", len(logs),
		"segments", segments, "bytes", bytes, "recovered", t.recovered.Load(), "cut", t.cuts.Load(), "cut_bytes", t.cutBytes.Load(),
		"out_of_service", out, "took", t.duration())
}

// maxReasons bounds the reasons that /healthz lists.
const maxReasons = 100

// health is what /healthz says.
type health struct {
	Ready   bool     `json:"ready"`
	Reasons []string `json:"reasons,omitempty"` // why not

	// How far the start is, or was when it ended.
	LogsFound  int64 `json:"logs_found"`
	LogsOpened int64 `json:"logs_opened"`
	// Partitions that take no appends.
	OutOfService int `json:"partitions_out_of_service"`
	// Partitions whose last append failed.
	Failing int `json:"partitions_failing"`
}

// health returns whether the broker serves all its partitions, and why not.
func (s *Server) health() health { return s.healthWith(s.disk.look()) }

// healthWith is health for who has asked for the room on the disk.
func (s *Server) healthWith(free room, diskErr error) health {
	h := health{LogsFound: s.start.found.Load(), LogsOpened: s.start.opened.Load()}
	if s.stopping.Load() {
		h.Reasons = append(h.Reasons, "broker is stopping")
	} else if s.start.took.Load() == 0 {
		h.Reasons = append(h.Reasons, s.startReason())
	}
	if err := s.Err(); err != nil {
		h.Reasons = append(h.Reasons, err.Error())
	}
	if reason := s.roomReason(free, diskErr); reason != "" {
		h.Reasons = append(h.Reasons, reason)
	}
	if reason := s.registrationReason(); reason != "" && !s.stopping.Load() {
		h.Reasons = append(h.Reasons, reason)
	}
	unnamed := 0
	if logs := s.opened.Load(); logs != nil {
		for _, l := range logs.Logs() {
			reason := ""
			if err := l.OutOfService(); err != nil {
				h.OutOfService++
				reason = err.Error()
			} else if f := l.AppendFailure(); f != nil {
				h.Failing++
				reason = fmt.Sprintf("%v (appends have failed since %s, until one succeeds)", f.Err, f.At.Format(time.RFC3339))
			}
			switch {
			case reason == "":
			case len(h.Reasons) < maxReasons:
				h.Reasons = append(h.Reasons, reason)
			default:
				unnamed++
			}
		}
	}
	if unnamed > 0 {
		h.Reasons = append(h.Reasons, fmt.Sprintf("%d more partitions are out of service, or fail to append", unnamed))
	}
	h.Ready = len(h.Reasons) == 0
	return h
}

// startReason says what the start is waiting for.
func (s *Server) startReason() string {
	t := &s.start
	switch {
	case s.opened.Load() != nil:
		return "broker is starting: its logs are open, it does not serve clients yet"
	case !t.listed.Load():
		return "broker is starting: listing the log folder"
	case t.clean.Load():
		return fmt.Sprintf("broker is starting: %d of %d logs opened", t.opened.Load(), t.found.Load())
	}
	return fmt.Sprintf("broker is starting: %d of %d logs recovered after a stop that was not clean", t.opened.Load(), t.found.Load())
}

// roomReason says that the disk is full, which is when it has no room for one
// more message of the largest size, or that it hangs. It wants what the disk said.
func (s *Server) roomReason(room room, err error) string {
	switch {
	case errors.Is(err, errDiskHangs):
		return fmt.Sprintf("log folder %s: %v", s.cfg.LogDir, err)
	case errors.Is(err, fs.ErrNotExist):
		return "" // not made yet, or in memory
	case err != nil:
		return fmt.Sprintf("log folder %s: room on the disk unknown: %v", s.cfg.LogDir, err)
	case room.free < uint64(s.cfg.MaxMessageBytes):
		return fmt.Sprintf("log folder %s: the disk is full: %d bytes are free, the largest message has %d: make room", s.cfg.LogDir, room.free, s.cfg.MaxMessageBytes)
	}
	return ""
}

// healthz answers 200 while the broker serves all its partitions, and 503 with
// the reasons otherwise: a line for each, or JSON to who asks for it by "?json"
// or an Accept header.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	h := s.health()
	status := http.StatusOK
	if !h.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Query().Has("json") || strings.Contains(r.Header.Get("Accept"), "application/json") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(h) // fails only when the peer is gone
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if h.Ready {
		fmt.Fprintln(w, "ready")
	}
	for _, reason := range h.Reasons {
		fmt.Fprintln(w, reason)
	}
}

// webServer serves /metrics, /healthz, /config and, to this machine, profiles.
type webServer struct {
	http     http.Server
	listener net.Listener
	ended    chan struct{}
}

// startWeb starts the web server, if there is to be one. It comes before all
// else, to tell what the start is doing.
func (s *Server) startWeb(ctx context.Context) error {
	if s.cfg.MetricsListen == "" {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.MetricsListen)
	if err != nil {
		return listenError("metrics", "--metrics-listen", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", s.healthz)
	mux.HandleFunc("GET /config", s.config)
	// Where the processor time goes, while it goes: no profile is taken unasked.
	mux.HandleFunc("GET /debug/pprof/", fromHere(pprof.Index))
	mux.HandleFunc("GET /debug/pprof/profile", fromHere(pprof.Profile))
	s.web = &webServer{listener: l, ended: make(chan struct{}), http: http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}}
	s.log.Info("serving metrics", "listen", l.Addr().String())
	go func() {
		defer close(s.web.ended)
		if err := s.web.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.fail(fmt.Errorf("metrics server on %v: %w", l.Addr(), err))
		}
	}()
	return nil
}

// fromHere answers programs of this machine alone. Metrics are often open to a whole
// network, and are cheap; profiles take time from the broker and tell of its insides.
func fromHere(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !ofThisMachine(r) {
			http.Error(w, "profiles are for programs on the broker's own machine: ask from there", http.StatusForbidden)
			return
		}
		handle(w, r)
	}
}

// ofThisMachine reports whether a request comes over the loopback, or from the
// address that it was sent to.
func ofThisMachine(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	from := peer.Addr().Unmap()
	own, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return from.IsLoopback() || own != nil && from == own.AddrPort().Addr().Unmap()
}

// closeWeb ends the web server; scrapes under way get a second. It comes after
// all else, to tell what the stop is doing.
func (s *Server) closeWeb() error {
	if s.web == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.web.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("metrics server: %w", err), s.web.http.Close())
	}
	<-s.web.ended
	return err
}

// MetricsAddr returns the address of the metrics server, or nil.
func (s *Server) MetricsAddr() net.Addr {
	if s.web == nil {
		return nil
	}
	return s.web.listener.Addr()
}

// Metrics returns where further metrics can be registered, of what runs in the broker's
// process beside it: they are served with the broker's own.
func (s *Server) Metrics() prometheus.Registerer { return s.metrics.registry }
