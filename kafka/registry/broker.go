package registry

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Broker is an entry of the broker registry.
type Broker struct {
	ID int32 // 0 or more
	// Creator tells one registration from all others, see [NewCreator]. It holds
	// no ':'.
	Creator string
	// Host is a name or an IPv4 address. It holds no ':', which divides the value
	// of the node: a broker that is reached by IPv6 needs a host name.
	Host string
	Port int // 1 to 65535
}

// Bounds of the value of a broker's node, in bytes (inclusive).
const (
	maxHostBytes    = 255 // of a name in DNS
	maxCreatorBytes = maxHostBytes + 64
	maxBrokerBytes  = maxCreatorBytes + maxHostBytes + len("::65535")
)

// Addr returns "host:port".
func (b Broker) Addr() string { return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) }

// String returns the value of the broker's node, "creator:host:port".
func (b Broker) String() string { return b.Creator + ":" + b.Host + ":" + strconv.Itoa(b.Port) }

// Check reports why a broker cannot be registered, or nil.
func (b Broker) Check() error {
	if b.ID < 0 {
		return fmt.Errorf("broker id %d: must be 0 or more", b.ID)
	}
	if err := CheckHost(b.Host); err != nil {
		return err
	}
	if b.Port < 1 || b.Port > 65535 {
		return fmt.Errorf("port %d of broker %d: must be from 1 to 65535", b.Port, b.ID)
	}
	if b.Creator == "" || len(b.Creator) > maxCreatorBytes || strings.Contains(b.Creator, ":") || !printable(b.Creator) {
		return fmt.Errorf("creator %.60q of broker %d: must be 1 to %d bytes without ':'", b.Creator, b.ID, maxCreatorBytes)
	}
	return nil
}

// CheckHost reports why a host cannot be registered, or nil.
func CheckHost(host string) error {
	switch {
	case host == "":
		return fmt.Errorf("no host to register: give the name or IPv4 address that clients reach this broker by")
	case strings.Contains(host, ":"):
		return fmt.Errorf("host %q: the registry of brokers cannot hold ':', and so no IPv6 address: give a host name that stands for the address", host)
	case len(host) > maxHostBytes || !printable(host) || strings.ContainsAny(host, " /"):
		return fmt.Errorf("host %.60q is neither a name nor an IPv4 address", host)
	}
	return nil
}

// printable tells whether text can stand in a log line.
func printable(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// ParseBroker reads the value of the node of a broker. It must have the three
// fields that 0.7 writes; of more, readers of 0.7 would use the second and third.
func ParseBroker(id int32, value string) (Broker, error) {
	if len(value) > maxBrokerBytes {
		return Broker{}, fmt.Errorf("value of %d bytes: at most %d are possible", len(value), maxBrokerBytes)
	}
	fields := strings.Split(value, ":")
	if len(fields) != 3 {
		return Broker{}, fmt.Errorf("value %.100q is not creator:host:port (an IPv6 address cannot stand there)", value)
	}
	port, err := parseNumber(fields[2], 65535)
	if err != nil {
		return Broker{}, fmt.Errorf("port: %w", err)
	}
	b := Broker{ID: id, Creator: fields[0], Host: fields[1], Port: int(port)}
	return b, b.Check()
}
