package kit

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
)

// Free returns an address of this machine that nobody listens on.
func Free(t testing.TB) string {
	t.Helper()
	address, err := FreeAddress("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Ports are given below those that the system gives away by itself: one of these may be a client's a moment later, or
// while the server that had it is started again. A process begins anywhere, so that others that are under way aren't met, and
// gives none twice before it has given all.
const firstPort, ports = 23000, 9700

var given atomic.Uint64

func init() { given.Store(rand.Uint64N(ports)) }

// FreeAddress is [Free] at a host of this machine, for those who have no test.
func FreeAddress(host string) (address string, err error) {
	for range ports {
		port := firstPort + given.Add(1)%ports
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.FormatUint(port, 10))); err == nil {
			return l.Addr().String(), l.Close()
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return "", err
}
