package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// calls are those of a script, which tells of each by HTTP: a confined hook shares no file
// with a test.
type calls struct {
	server *httptest.Server
	mu     sync.Mutex
	inputs []object
	fail   int // the call that fails, from 1; 0: none
}

// listen waits for calls, until the test ends.
func listen(t *testing.T) *calls {
	t.Helper()
	c := &calls{}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var input object
		if err == nil {
			err = json.Unmarshal(text, &input)
		}
		if err != nil { // of one that is killed while it tells
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if c.add(input) {
			http.Error(w, "fail", http.StatusTeapot)
		}
	}))
	t.Cleanup(c.server.Close)
	return c
}

// add says whether the call is to fail.
func (c *calls) add(input object) (fails bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inputs = append(c.inputs, input)
	return len(c.inputs) == c.fail
}

// port is the one that hooks must be allowed to connect to.
func (c *calls) port() string {
	u, err := url.Parse(c.server.URL)
	if err != nil {
		panic(err) // net/http made it
	}
	return u.Port()
}

// script is the text of the script.
func (c *calls) script() string {
	return fmt.Sprintf(`#!/bin/sh
# Tells of its call, and fails where the test says so.
said=$(curl --silent --show-error --noproxy '*' --write-out '%%{http_code}' --output /dev/null --data-binary @- %s/) || exit 9
[ "$said" = 200 ] || { echo "the machine is angry" >&2; exit 3; }
`, c.server.URL)
}

// failAt has the script's call n (from 1) fail.
func (c *calls) failAt(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = n
}

// all are the inputs of the script's calls, in order.
func (c *calls) all() []object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.inputs)
}
