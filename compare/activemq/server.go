package activemq

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/xml"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"text/template"

	"kafkalab/compare/internal/launch"
	"kafkalab/harness/driver"
	"kafkalab/harness/host"
)

const (
	home     = "/usr/share/activemq"
	launcher = "/usr/share/java/activemq-run.jar"
	// messagingJar is a part of Spring that the broker's package depends on
	// but does not put on its class path. The listener of activemq.xml needs it.
	messagingJar = "/usr/share/java/spring3-messaging.jar"

	rawQueue  = "stats.raw"  // where the statistics plugin answers
	textTopic = "stats.text" // where the answers can be read
)

var (
	//go:embed activemq.xml.tmpl
	brokerText string
	//go:embed log4j.properties.tmpl
	logText string

	// The plain appearance of the files on the host matters less than that no
	// value can break them.
	brokerTemplate = template.Must(template.New("activemq.xml").Funcs(template.FuncMap{"xml": escape}).Parse(brokerText))
	logTemplate    = template.Must(template.New("log4j.properties").Parse(logText))
)

func escape(s string) (string, error) {
	var b bytes.Buffer
	err := xml.EscapeText(&b, []byte(s))
	return b.String(), err
}

// files are the values of the configuration files.
type files struct {
	Dir, Addr, Log      string
	Options             options
	RawQueue, TextTopic string
}

// Start starts a fresh broker.
func (d *Driver) Start(ctx context.Context, h host.Host, dir string, o driver.Options) (driver.Server, error) {
	opt, err := readOptions(o)
	if err != nil {
		return nil, err
	}
	port, err := h.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	f := files{
		Dir: dir, Addr: net.JoinHostPort(h.Addr(), strconv.Itoa(port)), Log: path.Join(dir, "log", "activemq.log"),
		Options: opt, RawQueue: rawQueue, TextTopic: textTopic,
	}
	if err := f.write(ctx, h); err != nil {
		return nil, err
	}
	s, err := launch.StartServer(ctx, launch.ServerConfig{
		Target:   driver.Target{Addr: f.Addr},
		StoreDir: path.Join(dir, "data"),
		Logs:     []string{f.Log},
		Parts:    storeParts,
		Start:    func(ctx context.Context) ([]host.Process, error) { return startBroker(ctx, h, dir, port, opt) },
	})
	if err != nil {
		return nil, err
	}
	return &server{Server: s, host: h}, nil
}

// storeParts are KahaDB's files. The journal holds messages and all that
// happens to them; the index is a B-tree beside it with a log of its own. The
// rest is locks and room for messages that are not persistent.
var storeParts = []driver.StorePart{
	{Name: "journal", Globs: []string{"kahadb/db-*.log"}},
	{Name: "index", Globs: []string{"kahadb/db.data", "kahadb/db.redo", "kahadb/db.free"}},
	{Name: "metadata", Globs: []string{"kahadb/lock"}},
}

// startBroker starts the program over what is in dir, and waits until it takes
// requests.
func startBroker(ctx context.Context, h host.Host, dir string, port int, opt options) ([]host.Process, error) {
	p, err := launch.Start(ctx, h, host.Command{Name: "activemq", Args: command(dir, opt), Dir: dir}, port, "Connector stomp started")
	if err != nil {
		return nil, err
	}
	if err = p.WaitReady(ctx); err == nil {
		err = launch.Exchange(ctx, h, port, `CONNECT\naccept-version:1.2\nhost:b\nheart-beat:0,0\n\n\0`, "CONNECTED")
	}
	if err != nil {
		return nil, errors.Join(err, p.Stop(ctx, 0))
	}
	return []host.Process{p.Process}, nil
}

// command is Java itself, so that the process is the broker: the package's
// script switches user and puts itself in the background.
func command(dir string, opt options) []string {
	return []string{
		"java", fmt.Sprintf("-Xms%dm", opt.heapMB/2), fmt.Sprintf("-Xmx%dm", opt.heapMB),
		"-XX:-UsePerfData",                       // writes outside of dir
		"-Dactivemq.idgenerator.hostname=broker", // else ids, and so logs, name the machine
		"-Djava.awt.headless=true", "-Djava.io.tmpdir=" + dir + "/tmp",
		"-Dactivemq.home=" + home, "-Dactivemq.base=" + dir, "-Dactivemq.conf=" + dir + "/conf",
		"-Dactivemq.data=" + dir + "/data", "-Dactivemq.classpath=" + dir + "/conf",
		"-Dlog4j.configuration=file:" + dir + "/conf/log4j.properties",
		"-jar", launcher, "start", "xbean:file:" + dir + "/conf/activemq.xml",
	}
}

func (f files) write(ctx context.Context, h host.Host) error {
	for _, sub := range []string{"conf", "data", "lib", "log", "tmp"} {
		if err := h.MkdirAll(ctx, path.Join(f.Dir, sub)); err != nil {
			return err
		}
	}
	for name, t := range map[string]*template.Template{"activemq.xml": brokerTemplate, "log4j.properties": logTemplate} {
		var text bytes.Buffer
		if err := t.Execute(&text, f); err != nil {
			return fmt.Errorf("activemq: writing %s: %w", name, err)
		}
		if err := h.WriteFile(ctx, path.Join(f.Dir, "conf", name), text.Bytes(), 0o644); err != nil {
			return err
		}
	}
	// The launcher puts what is in lib on the class path.
	_, err := h.Run(ctx, "ln", "-s", messagingJar, path.Join(f.Dir, "lib"))
	return err
}
