package peer_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/peer"
)

// Answers that no server of a library would give.
func TestAPeerThatBreaksHTTPIsBounded(t *testing.T) {
	t.Parallel()
	const whole = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		begin, more string // more is repeated until the client hangs up
		ok          bool
	}{
		"hints without end":      {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", false},
		"headers without end":    {whole, "X-A: b\r\n", false},
		"one header without end": {whole + "X-A: ", "bbbbbbbbbbbbbbbb", false},
		"trailers without end":   {whole + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", "X-A: b\r\n", false},
		"chunks of a lie":        {whole + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "{}", false},
		"two lengths":            {whole + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", "", false},
		"more than its length":   {whole + "Content-Length: 2\r\n\r\n{}", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"id\":1} ", true},
		"a line that isn't HTTP": {"SSH-2.0-OpenSSH_9.9\r\n", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { listener.Close() })
			go func() {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
					return
				}
				fmt.Fprint(conn, c.begin)
				for more := strings.Repeat(c.more, 100); more != ""; {
					if _, err := fmt.Fprint(conn, more); err != nil {
						return
					}
				}
			}()
			x := client(t, peer.Settings{MaxAnswer: 64 << 10})

			answer, err := x.Do(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/a", nil)

			switch {
			case c.ok && (err != nil || string(answer.Body) != "{}"):
				t.Errorf("%+v, %v", answer, err)
			case !c.ok && err == nil:
				var body struct{}
				if answer.Decode(&body) == nil {
					t.Errorf("it is taken: %+v", answer)
				}
			}
		})
	}
}
