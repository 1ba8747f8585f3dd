package coordinator_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/hooks/coordinator"
)

// Whatever an element manager answers, a call ends with one of the results, or with an error
// that says why, and goes nowhere else.
func FuzzAnswersOfAnElementManager(f *testing.F) {
	const whole = `{"id":"c","coordinationResult":"CONTINUE","vnfInstanceId":"vnf-1","vnfLcmOpOccId":"op-1","coordinationActionName":"drain_sessions"}`
	f.Add(uint16(201), "", "application/json", whole)
	f.Add(uint16(202), "/lcmcoord/v1/coordinations/1", "", "")
	f.Add(uint16(202), "http://[::1", "application/json", "{")
	f.Add(uint16(503), "", "application/problem+json", `{"detail":1}`)
	f.Fuzz(func(t *testing.T, status uint16, location, kind, body string) {
		if status < 200 || status > 599 || strings.ContainsAny(location+kind, "\r\n\x00") {
			t.Skip()
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || strings.HasSuffix(r.URL.Path, "/cancel") {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.Header()["Location"], w.Header()["Content-Type"] = []string{location}, []string{kind}
			w.WriteHeader(int(status))
			_, _ = w.Write([]byte(body)) // some statuses have no body
		}))
		defer server.Close()
		call := coordinator.Call{
			Root: server.URL, Timeout: time.Nanosecond, Now: time.Now, Pause: time.Millisecond,
			Request: coordinator.Request{Instance: "vnf-1", Operation: "op-1", Action: action},
			Accepted: func(now coordinator.UnderWay) error {
				if !strings.HasPrefix(now.URI, server.URL+"/") || now.ID == "" {
					t.Errorf("accepted: %+v", now)
				}
				return nil
			},
			Rejected: func(time.Time, time.Time) error { return nil },
			Said:     func(string) {},
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result, err := coordinator.Run(ctx, call)
		if _, failed := errors.AsType[*coordinator.FailedError](err); err != nil && !failed {
			t.Errorf("an error of another kind: %v", err)
		}
		if err == nil && (result.ID == "" || result.Operation != "op-1" || result.Result == "") {
			t.Errorf("a result that isn't one: %+v", result)
		}
	})
}
