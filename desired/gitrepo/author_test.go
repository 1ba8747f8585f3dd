package gitrepo

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestTheAuthorsOfAllInstancesAreThoseThatGitNames(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := openRepo(t, Options{})
	random := rand.New(rand.NewPCG(14, 14))
	const instances = 6
	there := map[int]bool{}
	type answer struct {
		rev desired.Revision
		who string
		err error
	}
	var said []answer
	for i := range 60 {
		n := random.IntN(instances)
		write := desired.Write{
			Instance: testID(n), Dir: shardDir(testID(n)), Subject: "set", By: fmt.Sprintf("Person %d <p@example.com>", i), Change: setLevel(testID(n), i),
		}
		if there[n] && random.IntN(4) == 0 {
			write.Change = func(desired.Revision, desired.Files) (desired.Files, error) { return nil, nil }
			there[n] = false
		} else {
			there[n] = true
		}
		if _, err := r.Write(t.Context(), write); err != nil {
			t.Fatal(err)
		}
		for k := range instances {
			rev, ok := r.Lookup(testID(k))
			if !ok {
				rev = desired.Revision{Instance: testID(k), Dir: shardDir(testID(k))}
			}
			rev.Commit = r.Head() // as who sees all commits at once has it
			who, err := r.read.Author(t.Context(), rev)
			said = append(said, answer{rev, who, err})
		}
	}

	// What git has of all commits, the oldest first; "" is what nobody has ever touched.
	last := map[string]string{}
	at := map[string]map[string]string{}
	for text := range strings.SplitSeq(runGit(t, r.opt.Dir, "log", "--reverse", "--name-only", "--format=%x00%H %an <%ae>", "main"), "\x00") {
		first, files, _ := strings.Cut(text, "\n")
		commit, by, _ := strings.Cut(first, " ")
		for file := range strings.FieldsSeq(files) {
			last[path.Dir(file)] = by
		}
		at[commit] = maps.Clone(last)
	}
	for i, a := range said {
		want := at[a.rev.Commit][a.rev.Dir]
		if want != "" && (a.err != nil || a.who != want) {
			t.Fatalf("answer %d, instance %s at %s: author %q (%v), want %q", i, a.rev.Instance, a.rev.Commit, a.who, a.err, want)
		}
	}
	if len(at) < 50 || len(last) != instances {
		t.Errorf("%d commits changed %d instances", len(at), len(last))
	}
}
