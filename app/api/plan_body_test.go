package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/ui"
)

// endless is a body that begins with head and repeats unit; it counts what is read of it.
type endless struct {
	head, unit string
	rest       string
	read       atomic.Int64
}

func (e *endless) Read(p []byte) (int, error) {
	if e.rest == "" {
		e.rest = e.head + strings.Repeat(e.unit, 1+4096/len(e.unit))
		e.head = ""
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	e.read.Add(int64(n))
	return n, nil
}

func planRequest(t *testing.T, m *admission.Memory, body io.Reader) (*httptest.ResponseRecorder, *admission.Proposal, *admission.Hold) {
	t.Helper()
	hold, err := m.Begin(t.Context(), "anna")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	p, _ := readPlan(w, httptest.NewRequest(http.MethodPost, "/jibe/v1/plan", body), hold)
	return w, p, hold
}

func TestAProposalThatUnfoldsIsRefusedWhileItIsRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]*endless{
		"empty instances":       {head: `{"instances":[{}`, unit: `,{}`},
		"files of many values":  {head: `{"instances":[{}`, unit: `,{"dir":"a","file":"a: [` + strings.Repeat("0,", 500) + `0]"}`},
		"one file without end":  {head: `{"instances":[{"file":"`, unit: `x`},
		"escapes without end":   {head: `{"instances":[{"file":"`, unit: `\u0000`},
		"empty VIMs":            {head: `{"settings":{"VIMs":{"a":{}`, unit: `,"a":{}`},
		"a name without end":    {head: `{"`, unit: `x`},
		"rollouts":              {head: `{"rollouts":{"a":"a"`, unit: `,"a":"b: [0,0,0,0]"`},
		"touched folders":       {head: `{"touched":{"dirs":["a"`, unit: `,"a"`},
		"blanks without end":    {head: `{"instances":`, unit: ` `},
		"lists without end":     {head: `{"settings":`, unit: `[`},
		"an effect without end": {head: `{"effect":"`, unit: `x`},
	} {
		m := admission.NewMemory(1 << 20)
		w, _, hold := planRequest(t, m, c)
		hold.End()

		if w.Code != http.StatusRequestEntityTooLarge && w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if read := c.read.Load(); read > 2*mostTouchedSent {
			t.Errorf("%s: %d bytes were read", name, read)
		}
		if name == "empty instances" && c.read.Load() > 64<<10 {
			t.Errorf("%d bytes of instances, each of which unfolds, were read", c.read.Load())
		}
	}
}

func TestAProposalIsReadAsItWasSent(t *testing.T) {
	t.Parallel()
	const body = `{"instances":[{"dir":"instances/a","file":"name: a\n"},{"dir":"instances/b","instance":"b"}],` +
		`"rollouts":{"rollouts/r.yaml":"to: x"},"settings":null,"touched":{"dirs":["instances/a"]},"effect":"1 begins"}`
	w, p, hold := planRequest(t, admission.NewMemory(1<<20), strings.NewReader(body))
	defer hold.End()

	if w.Code != http.StatusOK || len(p.Instances) != 2 || p.Instances[1].Instance != "b" || p.Settings != nil || p.Effect != "1 begins" {
		t.Fatalf("%d %s: %+v", w.Code, w.Body, p)
	}
	if diff := cmp.Diff(map[string]string{"rollouts/r.yaml": "to: x"}, p.Rollouts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"instances/a"}, p.Touched.Dirs); diff != "" {
		t.Error(diff)
	}

	for _, bad := range []string{``, `[]`, `{"instances":{}}`, `{"instances":[]`, `{"instances":[],"instances":[]}`, `{"other":1}`, `{"instances":[{"other":1}]}`} {
		w, _, hold := planRequest(t, admission.NewMemory(1<<20), strings.NewReader(bad))
		hold.End()
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", bad, w.Code, w.Body)
		}
	}
}

func TestAPlanThatFindsNoMemoryIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	m := admission.NewMemory(64 << 10)
	other, err := m.Begin(t.Context(), "otto")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Take(64 << 10); err != nil {
		t.Fatal(err)
	}
	const body = `{"instances":[{"dir":"instances/a","file":"name: a\n"}]}`

	w, _, hold := planRequest(t, m, strings.NewReader(body))
	hold.End()
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
	}

	other.End()
	w, _, hold = planRequest(t, m, strings.NewReader(body))
	hold.End()
	if w.Code != http.StatusOK {
		t.Errorf("when the other has ended: %d %s", w.Code, w.Body)
	}
}

func TestThePageSaysWhyNoPlanIsMadeNow(t *testing.T) {
	t.Parallel()
	other := errors.New("another error")
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"the memory is in use": {fmt.Errorf("plan: %w", admission.ErrMemoryInUse), http.StatusServiceUnavailable},
		"too many wait":        {admission.ErrTooManyPlans, http.StatusTooManyRequests},
		"too large":            {fmt.Errorf("plan: %w", &admission.TooLargeError{Most: 1 << 20}), http.StatusRequestEntityTooLarge},
	} {
		f, ok := errors.AsType[*ui.Failure](unplanned(c.err))
		if !ok || f.Status != c.want || !strings.Contains(f.Remedy, "Nothing was changed") {
			t.Errorf("%s: %+v", name, f)
		}
	}
	if got := unplanned(other); !errors.Is(got, other) {
		t.Errorf("another error becomes %v", got)
	}
}
