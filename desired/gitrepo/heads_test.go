package gitrepo

import (
	"reflect"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestHeadsAreTheInstancesAsTheyCountByIdAfterAnyOfThem(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	for i := range 5 {
		mustWrite(t, r, testID(i), shardDir(testID(i)), 1)
	}
	list := r.List()
	for from, after := range append([]string{""}, list[0].Instance, list[1].Instance, list[2].Instance, list[3].Instance, list[4].Instance) {
		at := from
		for h := range r.Heads(after) {
			in, err := r.read.Read(t.Context(), list[at])
			if err != nil {
				t.Fatal(err)
			}
			one, ok := r.LookupHead(h.Instance)
			there, found := r.InDir(h.Dir)
			if want := desired.HeadOf(list[at], in); !reflect.DeepEqual(h, want) || !ok || !reflect.DeepEqual(one, want) || !found || !reflect.DeepEqual(there, want) {
				t.Errorf("after %q, number %d is %+v, alone %+v, in its directory %+v, want %+v", after, at, h, one, there, want)
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
	if h, ok := r.InDir("instances"); ok {
		t.Errorf("in a directory of none there is %+v", h)
	}
}

func TestWhatAnInstanceNeedsStandsAtHeadAlsoWhereItsFileIsntObeyed(t *testing.T) {
	t.Parallel()

	dir := t.TempDir() + "/desired.git"
	r := openRepo(t, Options{Dir: dir})
	mustWrite(t, r, testID(1), "instances/a", 1)
	c := clone(t, r)
	put(t, c, "instances/a/vnf.yaml", []byte("id: "+testID(1)+"\nvnfdId: x\nneeds: [{instance: instances/b, version: \">=2\"}]\n"))
	commitPush(t, c, "Need another")
	put(t, c, "instances/a/vnf.yaml", []byte("state: [\n"))
	commitPush(t, c, "Break it")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = openRepo(t, Options{Dir: dir})
	if h, ok := r.InDir("instances/a"); !ok || !reflect.DeepEqual(h.Needs, []desired.Need{{Instance: "instances/b", Version: ">=2"}}) {
		t.Errorf("it is %+v", h)
	}
}

func TestHeadsAreThoseOfTheMomentInWhichTheIterationBeganAndKeepNobodyWaiting(t *testing.T) {
	t.Parallel()

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
	t.Parallel()

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
	if got, ok := r.LookupHead(testID(1)); !ok || !reflect.DeepEqual(got, want) || want.VnfdID == "" || want.State != desired.Instantiated {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = openRepo(t, Options{Dir: dir})
	if got, ok := r.LookupHead(testID(1)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("after a restart it is %+v, want %+v", got, want)
	}
}
