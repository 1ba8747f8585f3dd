package gitrepo

import (
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
)

func TestAnEndedRolloutIsRefusedANewTarget(t *testing.T) {
	t.Parallel()

	const (
		id   = "5f0c1f8e-53e4-4f6e-9f0e-0d3f6a7b8c9d"
		file = "id: " + id + "\nselect: {folders: [instances/**]}\nto: {levels: {web: 2}}\n"
	)
	ro, err := desired.ParseRollout("rollouts/edge.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	ledger := func(as string) string {
		l := desired.Ledger{Rollout: "edge", Target: ro.To.Digest()}
		if as != "" {
			l.Ended = &desired.RolloutEnd{At: time.Unix(1, 0), As: as}
		}
		return string(l.Encode())
	}
	dir := bareRemote(t)
	r := check.New(read.New(git.Runner{Dir: dir}, "main", 1<<20))
	defer r.Close()
	for _, tc := range []struct {
		name, ended, file, want string
	}{
		{"a new target", "completed", strings.Replace(file, "web: 2", "web: 3", 1), "rollouts/edge.yaml: its rollout has ended (completed), and to: asks for another target, which it never brings (put to: back, and write the new target to a rollout file with another name, without id and to.package)"},
		{"after it was aborted", "aborted", strings.Replace(file, "web: 2", "web: 3", 1), "rollouts/edge.yaml: its rollout has ended (aborted)"},
		{"another limit", "completed", file + "atOnce: 3\n", ""},
		{"while it runs", "", strings.Replace(file, "web: 2", "web: 3", 1), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			person := commitTo(t, dir)
			person.edit(map[string]string{"rollouts/edge.yaml": file, "rollouts/.state/" + id + ".yaml": ledger(tc.ended)})
			old := person.commit("Begin")
			person.edit(map[string]string{"rollouts/edge.yaml": tc.file})
			next := person.commit("Change")

			ps, err := r.CheckRollouts(t.Context(), check.RefUpdate{Ref: "refs/heads/main", Old: old, New: next})

			if got := problemText(ps); err != nil || tc.want == "" && got != "" || !strings.HasPrefix(got, tc.want) {
				t.Errorf("got\n%s\nwant\n%s (%v)", got, tc.want, err)
			}
		})
	}
}

func TestVersionsOfAFileNewestFirst(t *testing.T) {
	t.Parallel()

	remote := bareRemote(t)
	person := commitTo(t, remote)
	for _, text := range []string{"one", "two", "three"} {
		person.edit(map[string]string{"rollouts/x": text})
		person.commit(text)
	}
	person.edit(map[string]string{"rollouts/x": "one"})
	runGit(t, remote, "update-ref", "refs/heads/main", person.commit("Revert all"))
	r := openRepo(t, Options{Remote: remote, Now: tick()})

	hashes, err := r.Versions(t.Context(), "rollouts/x", time.Time{}, 10)
	if err != nil {
		t.Fatal(err)
	}

	var texts []string
	for _, hash := range hashes {
		text, err := r.read.Content(t.Context(), hash)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	if got := strings.Join(texts, " "); got != "one three two" {
		t.Errorf("the versions are %q", got)
	}
}
