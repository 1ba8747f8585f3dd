package doctor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestAProjectThatProposesWithoutAForgeHasFailed(t *testing.T) {
	proposes := &desired.Settings{Projects: map[string]*desired.Project{
		"edge": {Name: "edge", Write: desired.Writes{PullRequest: []string{"SCALE"}}},
		"core": {Name: "core"},
	}}
	for _, test := range []struct {
		name     string
		settings *desired.Settings
		token    func(context.Context) error
		want     string
	}{
		{name: "no forge", settings: proposes, want: "projects/edge.yaml: requests are to be proposed"},
		{name: "a forge", settings: proposes, token: func(context.Context) error { return nil }},
		{name: "nothing is proposed", settings: &desired.Settings{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			said := ""
			for _, c := range (&Target{Token: test.token}).ofSettings(test.settings) {
				f := c.Run(t.Context())
				if f.State != Failed || !strings.Contains(f.Do, "--forge-token") {
					t.Errorf("%s: %+v", c.Name, f)
				}
				said += f.Means
			}
			if said == "" && test.want != "" || !strings.HasPrefix(said, test.want) || strings.Contains(said, "core") {
				t.Errorf("it says %q, want %q", said, test.want)
			}
		})
	}
}

func TestAKindThatAVIMCantListHasFailed(t *testing.T) {
	t.Parallel()
	sees := drivers.Sight{Version: "Kubernetes v1", Lacking: []string{"secrets (list)"}, Unlisted: []string{`Gadget.example.com (service "gone" not found)`}}
	x := &Target{VIM: func(context.Context, *desired.VIM) (drivers.Sight, error) { return sees, nil }}

	f := x.vim(t.Context(), &desired.VIM{Name: "a", Type: "kubernetes"}, &desired.Settings{})

	if f.State != Failed || !strings.Contains(f.Means, sees.Unlisted[0]) || f.Do == "" {
		t.Errorf("doctor says %+v", f)
	}
}

func TestAnAccountWithinReachOfPackagesIsAWarning(t *testing.T) {
	t.Parallel()
	core := &desired.Project{Name: "core", VIMs: []string{"a"}, Namespaces: []string{"core"}}
	for name, c := range map[string]struct {
		account  string
		vim      desired.VIM
		projects map[string]*desired.Project
		want     State
	}{
		"in a namespace that no project has": {"jibe/jibe", desired.VIM{Name: "a"}, map[string]*desired.Project{"core": core}, OK},
		"in a project's":                     {"core/jibe", desired.VIM{Name: "a"}, map[string]*desired.Project{"core": core}, Warning},
		"at another VIM":                     {"core/jibe", desired.VIM{Name: "b"}, map[string]*desired.Project{"core": core}, OK},
		"in one that default has":            {"jibe/jibe", desired.VIM{Name: "b"}, map[string]*desired.Project{"core": core}, Warning},
		"of Jibe's own pod":                  {"core/jibe", desired.VIM{Name: "a", InCluster: true}, map[string]*desired.Project{"core": core}, OK},
		"no account":                         {"", desired.VIM{Name: "a"}, map[string]*desired.Project{"core": core}, OK},
		"no projects":                        {"core/jibe", desired.VIM{Name: "a"}, nil, OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &Target{VIM: func(context.Context, *desired.VIM) (drivers.Sight, error) {
				return drivers.Sight{Version: "Kubernetes v1", Account: c.account}, nil
			}}
			c.vim.Type = desired.VIMKubernetes

			f := x.vim(t.Context(), &c.vim, &desired.Settings{Projects: c.projects})

			if f.State != c.want || (f.State == Warning) != strings.Contains(f.Means, "service account "+c.account) {
				t.Errorf("doctor says %+v", f)
			}
		})
	}
}

func TestWhatIsMissingOnlyWhileTheServerPutsPacksTogetherIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	repository := filepath.Join(dir, "desired.git")
	for _, args := range [][]string{{"init", "-q", "-b", "main", repository}, {"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "one"},
		{"-C", repository, "repack", "-adq"}} {
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	packs := filepath.Join(repository, ".git", "objects", "pack")
	if err := os.Rename(packs, packs+".away"); err != nil {
		t.Fatal(err)
	}
	x := &Target{Data: dir}
	if f := x.connected(t.Context(), filepath.Join(repository, ".git")); f.State != Failed || !strings.Contains(f.Means, "isn't whole") {
		t.Errorf("without its packs it is found %+v", f)
	}
	done := make(chan Finding, 1)
	go func() { done <- x.connected(t.Context(), filepath.Join(repository, ".git")) }()
	kit.Pause(t.Context(), lookAgain/2) // it has looked, or does so once they are back
	if err := os.Rename(packs+".away", packs); err != nil {
		t.Fatal(err)
	}
	if f := <-done; f.State != OK {
		t.Errorf("with its packs back a moment later it is found %+v", f)
	}
}

func TestARefThatMisleadsIsFound(t *testing.T) {
	t.Parallel()

	dir := filepath.Join(t.TempDir(), "desired.git")
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v %s", args, err, out)
		}
	}
	run("init", "-q", "-b", "trunk", dir)
	run("-C", dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "one")
	run("-C", dir, "update-ref", "refs/tags/v1", "HEAD")
	if f := misleading(t.Context(), filepath.Join(dir, ".git"), ""); f.State != OK {
		t.Errorf("without such a ref: %+v", f)
	}

	for _, ref := range []string{"refs/tags/HEAD", "refs/heads/origin/trunk", "refs/tags/trunk"} {
		run("-C", dir, "update-ref", ref, "HEAD")
		if f := misleading(t.Context(), filepath.Join(dir, ".git"), ""); f.State != Failed || !strings.Contains(f.Means, ref) || !strings.Contains(f.Do, "update-ref -d "+ref) {
			t.Errorf("%s: %+v", ref, f)
		}
		run("-C", dir, "update-ref", "-d", ref) // as the remedy says
	}
	if f := misleading(t.Context(), filepath.Join(dir, ".git"), ""); f.State != OK {
		t.Errorf("after the remedy: %+v", f)
	}
}
