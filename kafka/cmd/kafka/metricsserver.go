package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metricsServer serves /metrics for a command that runs until it is stopped.
type metricsServer struct {
	http  http.Server
	ended chan struct{}
}

// serveMetrics serves the metrics of a registry at an address, until Close. Port 0 takes
// a free one, which the log tells. ctx bounds only the start.
func serveMetrics(ctx context.Context, addr string, r *prometheus.Registry, log *slog.Logger) (*metricsServer, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w: give another --metrics-listen", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	s := &metricsServer{ended: make(chan struct{}), http: http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
	log.Info("serving metrics", "listen", l.Addr().String())
	go func() {
		defer close(s.ended)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "error", err)
		}
	}()
	return s, nil
}

// Close ends the server; scrapes under way get a second. Of nil it does nothing.
func (s *metricsServer) Close() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("metrics server: %w", err), s.http.Close())
	}
	<-s.ended
	return err
}
