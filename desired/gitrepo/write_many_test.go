package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

const ledgerName = "rollouts/.state/a.yaml"

var errStale = errors.New("moved meanwhile")

// toLevel is a change of one instance that drops out where its directory isn't at tree any more.
func toLevel(id, tree string, level int) desired.InstanceChange {
	return desired.InstanceChange{Instance: id, Change: func(at desired.Revision, _ desired.Files) (desired.Files, error) {
		if at.Tree != tree {
			return nil, errStale
		}
		return desired.Files{"vnf.yaml": vnfFile(id, level)}, nil
	}}
}

func TestManyInstancesAndTheLedgerAreOneCommitAndWhatMovedDropsOut(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Now: tick()})
	var changes []desired.InstanceChange
	for n := range 20 {
		rev := mustWrite(t, r, testID(n), shardDir(testID(n)), 1)
		changes = append(changes, toLevel(testID(n), rev.Tree, 2))
	}
	mustWrite(t, r, testID(3), "", 7)
	changes = append(changes, toLevel(testID(99), "", 2))
	before := r.Head()
	w := desired.WriteMany{Subject: "Roll on", Trailers: []desired.Trailer{{Key: desired.TrailerRollout, Value: "a"}}, Instances: changes, Files: []string{ledgerName},
		Change: func(now map[string][]byte, done []desired.Revised) (map[string][]byte, error) {
			return map[string][]byte{ledgerName: fmt.Appendf(now[ledgerName], "%d\n", len(done))}, nil
		}}
	out, err := r.WriteMany(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Done) != 19 || len(out.Refused) != 2 || !errors.Is(out.Refused[testID(3)], errStale) || !errors.Is(out.Refused[testID(99)], desired.ErrNotFound) {
		t.Fatalf("%d were written, and these weren't: %v", len(out.Done), out.Refused)
	}
	if n := strings.TrimSpace(runGit(t, r.opt.Dir, "rev-list", "--count", before+"..main")); n != "1" {
		t.Fatalf("%s commits were made", n)
	}
	fsck(t, r)
	// What the index followed without reading is what a reader of git finds.
	again := openReader(t, r)
	files, err := again.RolloutFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if data, err := again.read.Content(t.Context(), files[ledgerName]); err != nil || string(data) != "19\n" {
		t.Fatalf("the ledger is %q (%v)", data, err)
	}
	for n := range 20 {
		here, _ := r.Lookup(testID(n))
		there, _ := again.Lookup(testID(n))
		if here.Tree != there.Tree || here.Tree == "" {
			t.Fatalf("instance %d is at %+v, and git has %+v", n, here, there)
		}
		in, err := r.read.Read(t.Context(), here)
		if want := map[bool]int{true: 7, false: 2}[n == 3]; err != nil || in.Levels["vdu1_aspect"] != want {
			t.Fatalf("instance %d: %v, %v", n, in, err)
		}
	}
}

func openReader(t *testing.T, r *Repo) *Repo {
	t.Helper()
	again, err := Open(t.Context(), Options{Dir: r.opt.Dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.Close() })
	return again
}

func TestAWriteOfManyThatTheLedgerRefusesLeavesNothing(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Now: tick()})
	rev := mustWrite(t, r, testID(1), flatDir(testID(1)), 1)
	before := r.Head()
	for _, w := range []desired.WriteMany{
		{Files: []string{ledgerName}, Change: func(map[string][]byte, []desired.Revised) (map[string][]byte, error) { return nil, errStale }},
		{Files: []string{"vims/a.yaml"}, Change: func(map[string][]byte, []desired.Revised) (map[string][]byte, error) { return nil, nil }},
		{Change: func(map[string][]byte, []desired.Revised) (map[string][]byte, error) {
			return map[string][]byte{ledgerName: []byte("x")}, nil
		}},
	} {
		w.Subject, w.Instances = "Roll on", []desired.InstanceChange{toLevel(testID(1), rev.Tree, 2)}
		if _, err := r.WriteMany(t.Context(), w); err == nil {
			t.Errorf("a write of %v was taken", w.Files)
		}
	}
	if now, _ := r.Lookup(testID(1)); r.Head() != before || now.Tree != rev.Tree {
		t.Fatalf("the branch has moved from %s to %s", before, r.Head())
	}
}

// Writes of many, writes of one and pushes race: each instance is written once from where it was read,
// and the ledger counts exactly what its commits hold.
func TestWritesOfManyRaceWithRequestsAndPushesAndLoseNothing(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{Now: tick()})
	const instances = 12
	for n := range instances {
		mustWrite(t, r, testID(n), shardDir(testID(n)), 0)
	}
	var g sync.WaitGroup
	for worker := range 3 {
		g.Go(func() {
			for range 8 {
				var changes []desired.InstanceChange
				for n := range instances {
					changes = append(changes, raise(r, testID(n)))
				}
				_, err := r.WriteMany(context.Background(), desired.WriteMany{Subject: "Roll on", Instances: changes, Files: []string{ledgerName},
					Change: func(now map[string][]byte, done []desired.Revised) (map[string][]byte, error) {
						text := string(now[ledgerName])
						for _, d := range done {
							text += d.After.Instance + "\n"
						}
						return map[string][]byte{ledgerName: []byte(text)}, nil
					}})
				if err != nil {
					t.Errorf("worker %d: %v", worker, err)
				}
			}
		})
	}
	g.Go(func() {
		for n := range 40 {
			if _, err := r.Write(context.Background(), desired.Write{Instance: testID(n % instances), Subject: "Describe", Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
				next := maps.Clone(old)
				next["README"] = fmt.Appendf(nil, "%d", n)
				return next, nil
			}}); err != nil {
				t.Error(err)
			}
		}
	})
	g.Wait()
	files, err := r.RolloutFiles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	data, err := r.read.Content(t.Context(), files[ledgerName])
	if err != nil {
		t.Fatal(err)
	}
	for n := range instances {
		rev, _ := r.Lookup(testID(n))
		in, err := r.read.Read(t.Context(), rev)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Count(string(data), testID(n)); said != in.Levels["vdu1_aspect"] || said == 0 {
			t.Errorf("instance %d is at level %d, and the ledger says that it was raised %d times", n, in.Levels["vdu1_aspect"], said)
		}
	}
	fsck(t, r)
}

// raise raises the instance's level by one, from where it stands now.
func raise(r *Repo, id string) desired.InstanceChange {
	at, _ := r.Lookup(id)
	return desired.InstanceChange{Instance: id, Change: func(now desired.Revision, old desired.Files) (desired.Files, error) {
		if now.Tree != at.Tree {
			return nil, errStale
		}
		in, err := desired.ParseInstance(now.Dir+"/vnf.yaml", old["vnf.yaml"])
		if err != nil {
			return nil, err
		}
		next := maps.Clone(old)
		next["vnf.yaml"] = vnfFile(id, in.Levels["vdu1_aspect"]+1)
		return next, nil
	}}
}
