package coordinator_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/jibe-vnfm/jibe/hooks/coordinator"
	"github.com/jibe-vnfm/jibe/test/em"
)

// TestACoordinationElsewhereIsNotPolled has a record, which others may have changed, say that the coordination is at
// another place than the element manager's.
func TestACoordinationElsewhereIsNotPolled(t *testing.T) {
	var asked atomic.Int32
	evil := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer evil.Close()
	a := newAsker(em.Start(t))
	a.UnderWay = &coordinator.UnderWay{ID: "c", URI: evil.URL + "/lcmcoord/v1/coordinations/c"}

	_, err := coordinator.Run(t.Context(), a.Call)
	if failed, ok := errors.AsType[*coordinator.FailedError](err); !ok || !failed.Over || asked.Load() > 0 {
		t.Errorf("%v; it was asked %d times", err, asked.Load())
	}
}
