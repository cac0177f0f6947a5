package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"kafkalab/kafka/coord"
	"kafkalab/kafka/registry"
)

// advertisedHost returns the host that the broker is to be reached by: the one that
// is configured; else the address it listens on, if that is a single one; else the
// local address that reaches ZooKeeper, as that of Kafka 0.7 is an address of this
// machine, too.
func advertisedHost(ctx context.Context, cfg *Config) (string, error) {
	host := cfg.AdvertisedHost
	if host == "" {
		if listen, _, err := net.SplitHostPort(cfg.Listen); err == nil {
			if ip := net.ParseIP(listen); ip != nil && !ip.IsUnspecified() {
				host = ip.String()
			}
		}
	}
	if host == "" {
		var err error
		if host, err = localAddress(ctx, cfg.ZooKeeper.Servers); err != nil {
			return "", fmt.Errorf("host to register in ZooKeeper: %w: give it with --hostname", err)
		}
	}
	if err := registry.CheckHost(host); err != nil {
		return "", fmt.Errorf("host to register in ZooKeeper: %w (--hostname)", err)
	}
	return host, nil
}

// warnOfLoopback warns of a registered host that means another machine to everybody
// else, if there may be others: ZooKeeper is on another machine.
func (s *Server) warnOfLoopback(ctx context.Context, host string) {
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return
	}
	local, err := localAddress(ctx, s.cfg.ZooKeeper.Servers)
	if err != nil || net.ParseIP(local).IsLoopback() {
		return
	}
	s.log.Warn("the registered host is reached from this machine alone, and ZooKeeper is on another: listen on all interfaces (--listen 0.0.0.0:9092), or name the host with --hostname",
		"host", host, "zookeeper", s.cfg.ZooKeeper.Servers)
}

// localAddress returns the address of this machine from which a server of ZooKeeper
// is reached. Nothing is sent: the kernel chooses it when a UDP socket is connected.
func localAddress(ctx context.Context, servers string) (string, error) {
	hosts, _, _ := strings.Cut(servers, "/")
	var errs []error
	for server := range strings.SplitSeq(hosts, ",") {
		server = strings.TrimSpace(server)
		if _, _, err := net.SplitHostPort(server); err != nil {
			server = net.JoinHostPort(strings.Trim(server, "[]"), fmt.Sprint(coord.DefaultPort))
		}
		// IPv4 first, as only that can be registered.
		for _, network := range []string{"udp4", "udp6"} {
			conn, err := new(net.Dialer).DialContext(ctx, network, server)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			local := conn.LocalAddr().(*net.UDPAddr).IP.String()
			return local, conn.Close()
		}
	}
	return "", fmt.Errorf("no address of this machine reaches a server of ZooKeeper: %w", errors.Join(errs...))
}
