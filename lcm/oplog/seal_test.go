package oplog_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/sealed"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/lcm/oplog"
	"github.com/jibe-vnfm/jibe/store"
)

// withProof makes an operation of a log with a sealer whose record needs a proof.
func withProof(t *testing.T, sealer sealed.Sealer) (store.Store, *oplog.Log) {
	t.Helper()
	_, s := newLog(t)
	l, err := oplog.Open(t.Context(), s, time.Now, oplog.WithSealer(sealer))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Born(t.Context(), newOp("op1", lcm.Scale, "t1", "t2")); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
		op.HandOver = "age:abc"
		op.Grant = &lcm.Grant{ID: "g", Uncommitted: true, Text: "vimConnectionInfo: {}"}
		op.Coordinations = []lcm.Coordination{{Hook: "h", ID: "c", Outputs: "age:def"}}
		op.Modified = lcm.Entries{VIMs: map[string]*desired.VIM{"edge": {Type: "kubernetes", Endpoint: "https://10.0.0.1"}}, Params: map[string]any{"n": 12345678901234567}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestAnOperationIsTakenOnlyAsItWasWritten(t *testing.T) {
	t.Parallel()
	sealer := sealed.Sealer{Key: []byte("the installation's key")}
	none := func(text string) string { return text }
	for name, attack := range map[string]struct {
		change func(text string) string
		taken  bool
	}{
		"nothing":   {none, true},
		"hand-over": {func(s string) string { return strings.Replace(s, "age:abc", "file:/etc/shadow", 1) }, false},
		"outputs":   {func(s string) string { return strings.Replace(s, "age:def", "file:/etc/shadow", 1) }, false},
		"grant": {func(s string) string {
			return strings.Replace(s, "vimConnectionInfo: {}", "vimConnectionInfo: {evil: {}}", 1)
		}, false},
		"VIM":            {func(s string) string { return strings.Replace(s, "https://10.0.0.1", "https://10.6.6.6", 1) }, false},
		"another member": {func(s string) string { return `{"handOver":"file:/etc/shadow",` + s[1:] }, false},
		"no seal":        {func(s string) string { object, _ := sealed.Split([]byte(s)); return string(object) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := withProof(t, sealer)
			rec, err := s.Get(t.Context(), "operation/op1")
			if err != nil {
				t.Fatal(err)
			}
			changed := attack.change(string(rec.Value))
			if changed == string(rec.Value) && !attack.taken {
				t.Fatal("nothing was changed")
			}
			rec.Value = []byte(changed)
			if _, err := s.Put(t.Context(), rec); err != nil {
				t.Fatal(err)
			}

			again, err := oplog.Open(t.Context(), s, time.Now, oplog.WithSealer(sealer))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // what was taken away stays so
				op, err := again.Operation(t.Context(), "op1")
				if err != nil {
					t.Fatal(err)
				}
				if op.Unproven == attack.taken || op.NeedsProof() != attack.taken {
					t.Errorf("unproven %v: hand-over %q, grant %v, modified %v", op.Unproven, op.HandOver, op.Grant, op.Modified)
				}
				if _, err := again.Record(t.Context(), "op1", func(op *lcm.Operation, _ *lcm.Instance) error {
					op.AddToStory(epoch, "goes on")
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestOperationsOfAnEarlierVersionAreSealedOnce(t *testing.T) {
	t.Parallel()
	sealer := sealed.Sealer{Key: []byte("the installation's key")}
	s, _ := withProof(t, sealed.Sealer{})
	rec, err := s.Get(t.Context(), "operation/op1")
	if err != nil {
		t.Fatal(err)
	}
	for i, vim := range []*desired.VIM{
		{Credentials: desired.Credentials{Username: "admin", Password: "clear"}},
		{Credentials: desired.Credentials{ApplicationCredentialSecret: "file:/etc/shadow"}},
		{Credentials: desired.Credentials{Username: "file:/etc/shadow"}},
		{Kubeconfig: "file:/etc/kubernetes/admin.conf"},
		{CACert: "env:TOKEN"},
	} {
		name := "operation/vim" + strconv.Itoa(i)
		text, err := json.Marshal(lcm.Operation{ID: name, Instance: "amf", State: lcm.Processing, Modified: lcm.Entries{VIMs: map[string]*desired.VIM{"edge": vim}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), store.Record{Key: name, Value: text}); err != nil {
			t.Fatal(err)
		}
	}
	evil := lcm.Operation{ID: "op2", Instance: "amf", State: lcm.Processing, HandOver: "file:/etc/shadow"}
	text, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), store.Record{Key: "operation/op2", Value: text}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		if n, err := oplog.SealAll(t.Context(), s, sealer); err != nil || n != want {
			t.Fatalf("time %d: %d, %v", i, n, err)
		}
	}

	now, err := s.Get(t.Context(), "operation/op1")
	if err != nil {
		t.Fatal(err)
	}
	if object, proven := sealer.Open("operation/op1", now.Value); !proven || string(object) != string(rec.Value) {
		t.Errorf("%s is proven: %v", object, proven)
	}
}
