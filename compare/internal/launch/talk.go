package launch

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"kafkalab/harness/host"
)

// What a running server says of itself is asked for from its own host, since
// the testbed may have no way to the host's addresses: by bash, for its
// /dev/tcp.

// getScript asks $1, port $2, for the page $3.
const getScript = `exec 3<>"/dev/tcp/$1/$2" && printf 'GET %s HTTP/1.0\r\nHost: %s\r\n\r\n' "$3" "$1" >&3 && exec timeout 5 cat <&3`

// Get returns a page that a server on the host shows over HTTP.
func Get(ctx context.Context, h host.Host, addr string, port int, page string) ([]byte, error) {
	out, err := h.Run(ctx, "bash", "-c", getScript, "bash", addr, strconv.Itoa(port), page)
	if err != nil {
		return nil, fmt.Errorf("%s of port %d on %s: %w", page, port, h.Name(), err)
	}
	r, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
	if err != nil {
		return nil, fmt.Errorf("%s of port %d on %s: %w", page, port, h.Name(), err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %s", r.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("%s of port %d on %s: %w", page, port, h.Name(), err)
	}
	return body, nil
}

// linesScript sends what printf makes of $3 to $1, port $2, and prints the
// lines of the answer until $5 of them have begun with $4.
const linesScript = `exec 3<>"/dev/tcp/$1/$2" && printf "$3" >&3 || exit 1
n=0
while [ "$n" -lt "$5" ] && IFS= read -r -t 5 -u 3 line; do
  printf '%s\n' "$line"
  case $line in "$4"*) n=$((n+1));; esac
done
[ "$n" -ge "$5" ] || { echo "the answer has only $n of $5 lines with $4" >&2; exit 1; }`

// Lines makes one exchange with a server on the host that speaks in lines: it
// sends what the shell's printf makes of send, and returns the answer up to the
// n-th line that begins with prefix.
func Lines(ctx context.Context, h host.Host, port int, send, prefix string, n int) ([]byte, error) {
	out, err := h.Run(ctx, "bash", "-c", linesScript, "bash", h.Addr(), strconv.Itoa(port), send, prefix, strconv.Itoa(n))
	if err != nil {
		return nil, fmt.Errorf("port %d on %s: %w", port, h.Name(), err)
	}
	return out, nil
}
