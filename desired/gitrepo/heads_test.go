package gitrepo

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestHeadsAreTheInstancesAsTheyCountByIdAfterAnyOfThem(t *testing.T) {
	r := openRepo(t, Options{})
	for i := range 5 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	list := r.List()
	for from, after := range append([]string{""}, list[0].Instance, list[1].Instance, list[2].Instance, list[3].Instance, list[4].Instance) {
		at := from
		for h := range r.Heads(after) {
			in, err := r.Read(t.Context(), list[at])
			if err != nil {
				t.Fatal(err)
			}
			one, ok := r.LookupHead(h.Instance)
			if want := desired.HeadOf(list[at], in); h != want || !ok || one != want {
				t.Errorf("after %q, number %d is %+v, alone %+v, want %+v", after, at, h, one, want)
			}
			at++
		}
		if at != len(list) {
			t.Errorf("after %q they end before number %d of %d", after, at, len(list))
		}
	}
	if h, ok := r.LookupHead("none"); ok {
		t.Errorf("none is %+v", h)
	}
}

func TestHeadsAreThoseOfTheMomentInWhichTheIterationBeganAndKeepNobodyWaiting(t *testing.T) {
	r := openRepo(t, Options{})
	for i := range 3 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	before := r.List()
	at := 0
	for h := range r.Heads("") {
		if at == 0 {
			for i := range 3 {
				mustWrite(t, r, testID(i), "", 2)
			}
			mustWrite(t, r, testID(9), shardDir(testID(9)), 1)
		}
		if h.Revision != before[at] {
			t.Errorf("number %d is %+v, want %+v", at, h.Revision, before[at])
		}
		at++
	}
	if at != len(before) {
		t.Errorf("they are %d", at)
	}
}

func TestTheHeadOfAnInstanceThatIsntObeyedIsThatOfItsLastGoodFile(t *testing.T) {
	dir := t.TempDir() + "/desired.git"
	r := openRepo(t, Options{Dir: dir})
	mustWrite(t, r, testID(1), "instances/a", 1)
	want, _ := r.LookupHead(testID(1))
	c := clone(t, r)
	put(t, c, "instances/a/vnf.yaml", []byte("state: [\n"))
	commitPush(t, c, "Break it")
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.LookupHead(testID(1)); !ok || got != want || want.VnfdID == "" || want.State != desired.Instantiated {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = openRepo(t, Options{Dir: dir})
	if got, ok := r.LookupHead(testID(1)); !ok || got != want {
		t.Errorf("after a restart it is %+v, want %+v", got, want)
	}
}
