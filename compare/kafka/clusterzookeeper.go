package kafka

import (
	"context"
	"fmt"
	"time"

	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

// Where the package zookeeper of Debian and Ubuntu has its programs. The first
// jar names those that it needs; the second one writes the log.
const (
	zooKeeperJar = "/usr/share/java/zookeeper.jar"
	loggerJar    = "/usr/share/java/slf4j-simple.jar"
)

// realMessage is what a ZooKeeper of one node logs once it has read its data
// and takes sessions.
const realMessage = "PrepRequestProcessor (sid:0) started"

// Bounds of a session's time-out, whatever the tick.
const (
	minSession = 100 * time.Millisecond
	maxSession = time.Minute
)

// tick is the unit of session time-outs, up to which sessions end late: that of
// ZooKeeper's own example, or a third of short sessions.
func tick(session time.Duration) time.Duration {
	return min(2*time.Second, max(session/3, 10*time.Millisecond)).Truncate(time.Millisecond)
}

// checkZooKeeper says what a host lacks for a real ZooKeeper.
func checkZooKeeper(ctx context.Context, h host.Host) error {
	const script = `command -v java >/dev/null && [ -r ` + zooKeeperJar + ` ] && [ -r ` + loggerJar + ` ] && echo yes || echo no`
	out, err := h.Run(ctx, "sh", "-c", script)
	if err != nil {
		return fmt.Errorf("looking for ZooKeeper on %s: %w", h.Name(), err)
	}
	if string(out) != "yes\n" {
		return fmt.Errorf("ZooKeeper is %w on %s: run \"make setup\" there, which installs the package zookeeper; or use zookeeper = %q", driver.ErrNotInstalled, h.Name(), "embedded")
	}
	return nil
}

// zooKeeperConfig is the file of a ZooKeeper of one node. Time-outs of sessions
// are taken as they are asked for.
func zooKeeperConfig(addr string, port int, data string, session time.Duration) []byte {
	return fmt.Appendf(nil, `tickTime=%d
minSessionTimeout=%d
maxSessionTimeout=%d
dataDir=%s
clientPort=%d
clientPortAddress=%s
admin.enableServer=false
maxClientCnxns=0
`, tick(session).Milliseconds(), minSession.Milliseconds(), maxSession.Milliseconds(), data, port, addr)
}

func zooKeeperCommand(file string) []string {
	return []string{"java", "-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-Dzookeeper.jmx.log4j.disable=true",
		"-cp", zooKeeperJar + ":" + loggerJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file}
}
