package prometheus

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// wire is a way to the cluster that can be cut.
type wire struct {
	net.Listener
	to    string
	mu    sync.Mutex
	whole bool
	conns []net.Conn
}

func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go w.join(c)
		}
	}()
	t.Cleanup(func() { w.cut(); l.Close() })
	return w
}

// kubeconfig is the path of a copy of a kubeconfig that leads through the wire.
func (w *wire) kubeconfig(t *testing.T, path string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		t.Fatal(err)
	}
	for _, c := range config.Clusters {
		u, err := url.Parse(c.Server)
		if err != nil {
			t.Fatal(err)
		}
		w.mu.Lock()
		w.to = u.Host
		w.mu.Unlock()
		c.TLSServerName = u.Hostname()
		c.Server = "https://" + w.Addr().String()
	}
	to := filepath.Join(t.TempDir(), "far-kubeconfig")
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func (w *wire) join(c net.Conn) {
	w.mu.Lock()
	whole, to := w.whole, w.to
	w.mu.Unlock()
	if !whole {
		c.Close()
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		c.Close()
		return
	}
	w.mu.Lock()
	if whole = w.whole; whole {
		w.conns = append(w.conns, c, far)
	}
	w.mu.Unlock()
	if !whole { // it was cut meanwhile
		c.Close()
		far.Close()
		return
	}
	go func() { _, _ = io.Copy(far, c); far.Close() }()
	_, _ = io.Copy(c, far)
	c.Close()
}

func (w *wire) restore() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = true
}

func (w *wire) cut() {
	w.mu.Lock()
	w.whole = false
	w.mu.Unlock()
	w.drop()
}

// drop ends the connections that there are; new ones can be made.
func (w *wire) drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}
