package gitrepo

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestTheAuthorsOfAllInstancesAreThoseThatGitNames(t *testing.T) {
	t.Parallel()

	r := openRepo(t, Options{})
	random := rand.New(rand.NewPCG(14, 14))
	const instances = 6
	there := map[int]bool{}
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
			want := strings.TrimSpace(runGit(t, r.opt.Dir, "log", "-1", "--format=%an <%ae>", rev.Commit, "--", rev.Dir))
			if want == "" {
				continue // nobody has ever touched it
			}
			if got, err := r.Author(t.Context(), rev); err != nil || got != want {
				t.Fatalf("after %d commits, instance %d: author %q (%v), want %q", i+1, k, got, err, want)
			}
		}
	}
}
