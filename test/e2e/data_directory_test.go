package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// refuses starts `jibe serve` where it has to refuse, saying all of this.
func refuses(t *testing.T, data string, args []string, says ...string) {
	t.Helper()
	out := fails(t, data, args...)
	for _, s := range says {
		if !strings.Contains(out, s) {
			t.Errorf("no %q in\n%s", s, out)
		}
	}
}

func TestADataDirectoryWithoutItsDesiredRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data)
	if err := s.process.Stop(); err != nil {
		t.Fatal(err)
	}
	repository, away := filepath.Join(data, "desired.git"), filepath.Join(data, "away.git")
	if err := os.Rename(repository, away); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the refusal has made nothing that would let the next one start
		refuses(t, data, nil, "desired.git) is gone", "would be terminated", "git clone --mirror", "--remote")
	}
	if err := os.Mkdir(repository, 0o700); err != nil {
		t.Fatal(err)
	}
	refuses(t, data, nil, "is gone") // an empty directory is none
	if err := os.Remove(repository); err != nil {
		t.Fatal(err)
	}
	if out, err := process.Git(t.Context(), data, "clone", "--quiet", "--mirror", "file://"+away, repository); err != nil { // as it says
		t.Fatalf("%v\n%s", err, out)
	}
	serve(t, data)
}

func TestAMirrorThatIsGoneIsFetchedAnewFromItsOwnRemoteOnly(t *testing.T) {
	t.Parallel()
	remote := process.NewForge(t, map[string]string{
		"repositories.yaml":           "- {name: packages, url: packages.git, branch: main}\n",
		"vims/lab.yaml":               "type: sim\ndefault: true\n",
		"instances/site/amf/vnf.yaml": "vnfdId: " + plain + "\nflavour: simple\n",
	})
	data := filepath.Join(t.TempDir(), "data")
	s := serve(t, data, "--remote", "file://"+remote)
	s.publishPlain(t)
	is := func(s *server) {
		t.Helper()
		kit.Eventually(t, func() error {
			list := decodeList(t, s.must(t, 200, "GET", instances, nil).Body)
			if len(list) != 1 || list[0].text("instantiationState") != "INSTANTIATED" {
				return fmt.Errorf("the instances are %v", list)
			}
			return nil
		})
	}
	is(s)
	if err := s.process.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(data, "desired.git")); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{
		"an empty one":              process.NewForge(t, nil),
		"one with other instances":  process.NewForge(t, map[string]string{"instances/site/smf/vnf.yaml": "vnfdId: " + plain + "\nstate: notInstantiated\n"}),
		"one with no instances yet": process.NewForge(t, map[string]string{"README.md": "nothing\n"}),
	} {
		t.Log(name)
		for range 2 {
			refuses(t, data, []string{"--remote", "file://" + other}, "is not what data directory", "would be terminated", "--remote and --branch")
		}
	}
	again := serve(t, data, "--remote", "file://"+remote)
	is(again)
	for _, op := range decodeList(t, again.must(t, 200, "GET", operations, nil).Body) {
		if op.text("operation") == "TERMINATE" {
			t.Errorf("something was terminated: %v", op)
		}
	}
}

func TestARepositoryOfGitIsNoDataDirectory(t *testing.T) {
	t.Parallel()
	d := process.WorkTreeAt(t, t.TempDir())
	d.Git("init", "--quiet", "--initial-branch=main", d.Dir())
	d.Write("vims/lab.yaml", "type: sim\n")
	d.Commit("A clone that somebody works in")
	linked := filepath.Join(t.TempDir(), "linked")
	d.Git("worktree", "add", "--quiet", "-b", "other", linked)
	bare := filepath.Join(t.TempDir(), "bare.git")
	d.Git("clone", "--quiet", "--bare", "file://"+d.Dir(), bare)
	for what, dir := range map[string]string{"a work tree of git": d.Dir(), "a work tree": linked, "a bare repository of git": bare} {
		before := names(t, dir)
		refuses(t, dir, nil, "is "+what, "another --data", "--remote")
		if after := names(t, dir); after != before {
			t.Errorf("the refusal wrote something: %s, then %s", before, after)
		}
	}
	if out, err := process.Git(context.WithoutCancel(t.Context()), d.Dir(), "status", "--porcelain"); err != nil || out != "" {
		t.Errorf("the work tree was changed: %v\n%s", err, out)
	}
	serve(t, filepath.Join(d.Dir(), "demo-data", "jibe")) // below one there may be anything
}

func names(t *testing.T, dir string) string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range list {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}
