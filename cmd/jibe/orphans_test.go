package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/reconciler"
)

// orphanServer is a server that found these orphans, and notes what it is to delete.
type orphanServer struct {
	found   reconciler.Orphans
	deletes []reconciler.OrphanDeletion
	answer  func(d reconciler.OrphanDeletion) reconciler.OrphansDeleted
}

func (s *orphanServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		_ = json.NewEncoder(w).Encode(s.found)
		return
	}
	var d reconciler.OrphanDeletion
	if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.deletes = append(s.deletes, d)
	_ = json.NewEncoder(w).Encode(s.answer(d))
}

// someOrphans are at two VIMs: one with data, and one that is going.
func someOrphans() *orphanServer {
	const amf, upf = "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0aa", "7c2a1d52-9a0c-4a3c-8a3f-6f1a64b1e0bb"
	return &orphanServer{
		found: reconciler.Orphans{
			Orphans: []reconciler.Orphan{
				{VIM: "kube-a", Instance: amf, Dir: "instances/site-a/amf", Object: "Deployment/core/amf", Incarnation: "u1", Created: moment, Why: "no VNF instance has this id"},
				{VIM: "kube-a", Instance: amf, Dir: "instances/site-a/amf", Object: "PersistentVolumeClaim/core/data", Incarnation: "u2", Data: true, Why: "no VNF instance has this id"},
				{VIM: "kube-a", Instance: amf, Dir: "instances/site-a/amf", Object: "Service/core/amf", Incarnation: "u3", Deleting: true, Why: "no VNF instance has this id"},
				{VIM: "os-b", Instance: upf, Object: "Stack/vnf-" + upf, Incarnation: "u4", Why: "the VNF isn't instantiated"},
			},
			VIMs:   []string{"kube-a", "os-b"},
			Unseen: []reconciler.Unseen{{VIM: "kube-c", Why: "no route to host"}},
		},
		answer: func(d reconciler.OrphanDeletion) reconciler.OrphansDeleted {
			return reconciler.OrphansDeleted{Deleted: d.Objects, Refused: []reconciler.RefusedOrphan{}}
		},
	}
}

func TestOrphansAreShownAndDeleted(t *testing.T) {
	t.Parallel()

	s := someOrphans()
	out, hints, err := execute(t, s, "orphans", "delete", "--vim", "kube-a")
	if err == nil || !strings.Contains(err.Error(), "nothing was deleted") || !strings.Contains(err.Error(), "--yes") || len(s.deletes) > 0 {
		t.Fatalf("without a terminal: %v, %+v", err, s.deletes)
	}
	for _, want := range []string{"site-a/amf at VIM kube-a", "deletes  Deployment/core/amf", "stays    PersistentVolumeClaim/core/data", "is going Service/core/amf", "--delete-data"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out+hints, "os-b") || strings.Contains(hints, "kube-c") {
		t.Errorf("other VIMs are shown:\n%s%s", out, hints)
	}

	for name, c := range map[string]struct {
		args []string
		want string
		data bool
	}{
		"at one VIM":         {[]string{"--vim", "kube-a"}, "u1", false},
		"with data":          {[]string{"--vim", "kube-a", "--delete-data"}, "u1 u2", true},
		"of one instance":    {[]string{"7c2a"}, "u4", false},
		"of several, by ids": {[]string{"5b0e", "7c2a"}, "u1 u4", false},
		"all":                {nil, "u1 u4", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := someOrphans()

			out, _, err := execute(t, s, append([]string{"orphans", "delete", "--yes"}, c.args...)...)

			if err != nil || len(s.deletes) != 1 {
				t.Fatalf("%v, %+v", err, s.deletes)
			}
			var got []string
			for _, x := range s.deletes[0].Objects {
				got = append(got, x.Incarnation)
			}
			if strings.Join(got, " ") != c.want || s.deletes[0].DeleteData != c.data {
				t.Errorf("deletes %v, want %s\n%s", got, c.want, out)
			}
		})
	}
}

func TestWhatWasGoneBeforeTheDeletionIsToldApart(t *testing.T) {
	t.Parallel()

	s := someOrphans()
	s.answer = func(d reconciler.OrphanDeletion) reconciler.OrphansDeleted {
		return reconciler.OrphansDeleted{Deleted: d.Objects[1:], Gone: d.Objects[:1]}
	}

	out, _, err := execute(t, s, "orphans", "delete", "--yes")

	if err != nil || !strings.Contains(out, "deleted: 1 objects\ngone already: 1 objects\n") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestADeletionOfOrphansThatIsRefusedFails(t *testing.T) {
	t.Parallel()

	s := someOrphans()
	s.answer = func(d reconciler.OrphanDeletion) reconciler.OrphansDeleted {
		return reconciler.OrphansDeleted{Deleted: d.Objects[1:], Refused: []reconciler.RefusedOrphan{{OrphanRef: d.Objects[0], Reason: "it was made again"}}}
	}

	out, hints, err := execute(t, s, "orphans", "delete", "--yes")

	if err == nil || !strings.Contains(hints, "left alone: Deployment/core/amf") || !strings.Contains(out, "deleted: 1 objects") {
		t.Errorf("%v\n%s%s", err, out, hints)
	}
	if _, _, err := execute(t, s, "orphans", "delete", "--yes", "ffff"); err == nil || !strings.Contains(err.Error(), "nothing was deleted") {
		t.Errorf("an id of none: %v", err)
	}
}

func TestOrphansAreListedWithTheirPlace(t *testing.T) {
	t.Parallel()

	s := someOrphans()
	var b strings.Builder
	orphanTable(&b, &sheet{now: moment.Add(2 * time.Minute), wide: true}, &s.found)
	var lines []string
	for line := range strings.Lines(b.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	const amf, upf = "5b0e1d52-9a0c-4a3c-8a3f-6f1a64b1e0aa", "7c2a1d52-9a0c-4a3c-8a3f-6f1a64b1e0bb"
	want := []string{
		"VIM NAMESPACE KIND NAME INSTANCE AGE NOTE INSTANCE ID UID",
		"kube-a core Deployment amf site-a/amf 2m no VNF instance has this id " + amf + " u1",
		"kube-a core PersistentVolumeClaim data site-a/amf - no VNF instance has this id; has data " + amf + " u2",
		"kube-a core Service amf site-a/amf - being deleted " + amf + " u3",
		"os-b - Stack vnf-" + upf + " " + upf + " - the VNF isn't instantiated " + upf + " u4",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}

	out, hints, err := execute(t, s, "get", "orphans", "-o", "json")
	var list []reconciler.Orphan
	if err != nil || json.Unmarshal([]byte(out), &list) != nil || len(list) != 4 || !strings.Contains(hints, "kube-c can't be seen") {
		t.Errorf("%v\n%s%s", err, out, hints)
	}
	s.found.Orphans = nil
	for _, args := range [][]string{nil, {"--vim", "kube-c"}} {
		if out, _, err := execute(t, s, append([]string{"get", "orphans"}, args...)...); err != nil || out != "no orphans where VIMs can be seen\n" {
			t.Errorf("while a VIM is unseen: %q, %v", out, err)
		}
	}
	for _, args := range [][]string{{"get", "orphans"}, {"orphans", "delete", "--yes"}} {
		if out, _, err := execute(t, s, append(args, "--vim", "kube-aa")...); err == nil || !strings.Contains(err.Error(), "no VIM kube-aa") || out != "" {
			t.Errorf("a VIM that isn't there: %q, %v", out, err)
		}
	}
	s.found.Unseen = nil
	if out, _, err := execute(t, s, "get", "orphans"); err != nil || out != "every object belongs to a VNF\n" {
		t.Errorf("%q, %v", out, err)
	}
}
