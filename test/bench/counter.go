package main

import (
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// counter stands before the API server and counts what one client asks of it: the API
// server's own metrics don't tell clients apart.
type counter struct {
	server *httptest.Server

	mu      sync.Mutex
	calls   map[string]int // but for watches, by method and path
	watches int            // that were begun
}

func newCounter(kubeconfig string) (*counter, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	forward := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			w.WriteHeader(http.StatusBadGateway)
		},
	}
	c := &counter{calls: map[string]int{}}
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.count(r)
		forward.ServeHTTP(w, r)
	}))
	// As the API server's own, so that the client pays what it would pay there.
	c.server.EnableHTTP2 = true
	c.server.StartTLS()
	return c, nil
}

func (c *counter) count(r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		c.watches++
		return
	}
	c.calls[r.Method+" "+r.URL.Path]++
}

// take returns what was counted since the last time.
func (c *counter) take() (calls map[string]int, watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls, watches = c.calls, c.watches
	c.calls, c.watches = map[string]int{}, 0
	return calls, watches
}

// vim is the text of the file of a VIM that is reached through the counter.
func (c *counter) vim() string {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	return fmt.Sprintf("type: kubernetes\nendpoint: %s\ncaCert: |\n  %s\n", c.server.URL,
		strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n  "))
}

func (c *counter) close() {
	c.server.CloseClientConnections()
	c.server.Close()
}

// sum is how many calls there were.
func sum(calls map[string]int) (n int) {
	for x := range maps.Values(calls) {
		n += x
	}
	return n
}

// methods are the calls by their method, in one line.
func methods(calls map[string]int) string {
	by := map[string]int{}
	for call, n := range calls {
		method, _, _ := strings.Cut(call, " ")
		by[method] += n
	}
	var said []string
	for _, m := range slices.Sorted(maps.Keys(by)) {
		said = append(said, fmt.Sprintf("%d %s", by[m], m))
	}
	return strings.Join(said, ", ")
}

// client is a bare client without a rate limit that goes through the counter.
func (c *counter) client() (*kubernetes.Clientset, error) {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	return kubernetes.NewForConfig(&rest.Config{Host: c.server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: ca}})
}
