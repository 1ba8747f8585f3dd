package oplog_test

import (
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/lcm"
)

func TestARebuildKeepsWhatGitDoesNotKnowOfVIMs(t *testing.T) {
	l, _ := newLog(t)
	must(t, l.Created(t.Context(), "amf", lcm.VNF{}, rev("t0")))
	must(t, l.Adopt(t.Context(), "amf", func(i *lcm.Instance) error {
		i.VIMs, i.GoneVIMs = map[string]string{"core": "uid-1"}, []string{"edge"}
		return nil
	}))

	op := newOp("op1", lcm.Scale, "t0", "t1")
	op.State = lcm.Completed
	done, err := l.Rebuild(t.Context(), &lcm.Instance{ID: "amf", Last: "op1", LastState: lcm.Completed, Operated: rev("t1")}, []*lcm.Operation{&op}, false, false)
	if err != nil || !done.Instance {
		t.Fatalf("rebuilt %+v: %v", done, err)
	}
	if i := instance(t, l); i.Last != "op1" || i.VIMs["core"] != "uid-1" || !slices.Equal(i.GoneVIMs, []string{"edge"}) {
		t.Errorf("the record is %+v", i)
	}
}
