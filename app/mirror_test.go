package app_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/redisserver"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// mirrored are processes that mirror one forge, each of which knows the callers of pushTokens.
type mirrored struct {
	*testing.T
	forge string
	s     []*process.Server
}

// withMirrors starts n processes, of which several share a Redis.
func withMirrors(t *testing.T, n int) *mirrored {
	t.Helper()
	p := process.NewBare(t)
	addSmall(p)
	packages := p.Dir
	m := &mirrored{T: t, forge: process.NewForge(t, map[string]string{
		"projects/east.yaml":          "instances: [east]\nrepositories: [eastern]\nvims: ['*']\nnamespaces: ['east-*']\n",
		"projects/west.yaml":          "instances: [west]\nvims: ['*']\nnamespaces: ['west-*']\n",
		"repositories.yaml":           "- {name: packages, url: " + packages + ", branch: main}\n",
		"vims/cloud.yaml":             "type: sim\ndefault: true\n",
		"instances/east/README.md":    "East\n",
		"instances/east/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-east"),
		"instances/west/amf/vnf.yaml": fmt.Sprintf(notYet, "amf-west"),
	})}
	args := []string{"--remote", m.forge, "--poll", "1h", "--share-desired"}
	if n > 1 {
		args = append(args, "--store", redisserver.Start(t).URL())
	}
	for i := range n {
		data := process.ShortTempDir(t)
		lay(t, data, "packages")
		if err := os.WriteFile(datadir.TokensFile(data), []byte(pushTokens), 0o600); err != nil {
			t.Fatal(err)
		}
		more := args
		if i > 0 {
			more = append(more[:len(more):len(more)], "--identity", filepath.Join(m.s[0].Data, secret.IdentityFile))
		}
		m.s = append(m.s, process.Start(t, data, more...))
	}
	for _, s := range m.s {
		s.AwaitPackages(t, process.SmallVnfd)
	}
	return m
}

// clone is a work tree of what one of the processes shows.
func (m *mirrored) clone(n int, who string) *process.WorkTree {
	m.Helper()
	return process.NewWorkTree(m, as(m.s[n], who, "desired.git"))
}

// head is where main is in a repository.
func (m *mirrored) head(dir string) string {
	m.Helper()
	at, err := process.Ref(dir, "refs/heads/main")
	if err != nil {
		m.Fatal(err)
	}
	return at
}

// pushed pushes what a work tree has to a ref of the process that it is a clone of, and returns what git says.
func pushed(w *process.WorkTree, ref string) (said string, err error) {
	cmd := exec.Command("git", "-C", w.Dir(), "push", "origin", "HEAD:"+ref)
	cmd.Env = process.Environment()
	out, err := cmd.CombinedOutput()
	return strings.ReplaceAll(string(out), "\nremote: ", " "), err
}

// unchanged fails unless the forge and each mirror are where they were.
func (m *mirrored) unchanged(was string, n int) {
	m.Helper()
	if at := m.head(m.forge); at != was {
		m.Errorf("the forge was at %s and is at %s", was, at)
	}
	if at := m.head(m.s[n].Desired()); at != was {
		m.Errorf("the mirror was at %s and is at %s", was, at)
	}
}

const east, west = "instances/east/amf/vnf.yaml", "instances/west/amf/vnf.yaml"

func TestAPushToAMirrorIsOnTheForgeBeforeItIsAnswered(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	m := withMirrors(t, 1)
	w := m.clone(0, "east")
	w.Replace(east, "name: amf-east\n", "name: amf-east # the blue one\n")
	w.Commit("Explain")
	mine := w.Git("rev-parse", "HEAD")
	if said, err := pushed(w, "main"); err != nil {
		t.Fatal(said)
	}
	m.unchanged(mine, 0) // from now on
	if tracked := w.Git("rev-parse", "origin/main"); tracked != mine {
		t.Errorf("the clone takes main to be at %s", tracked)
	}
	// Who pushed stands beside the commit; the forge gets the note with the others.
	kit.Eventually(t, func() error {
		if note, err := process.Git(t.Context(), m.s[0].Desired(), "notes", "--ref=jibe", "show", mine); err != nil || !strings.Contains(note, `pushed by "east`) {
			return fmt.Errorf("the note is %q, %w", note, err)
		}
		return nil
	})

	// What may not be pushed, or couldn't be obeyed, gets nowhere.
	w.Replace(west, "amf-west", "mine")
	w.Commit("Take over")
	if said, err := pushed(w, "main"); err == nil || !strings.Contains(said, "operator in project west") {
		t.Errorf("another's: %s", said)
	}
	w.Git("reset", "-q", "--hard", mine)
	w.Replace(east, "flavour: simple", "flavour: [")
	w.Commit("Break")
	for _, ref := range []string{"main", "refs/for/main"} {
		if said, err := pushed(w, ref); err == nil || !strings.Contains(said, east) {
			t.Errorf("what can't be read, to %s: %s", ref, said)
		}
	}
	w.Git("reset", "-q", "--hard", mine)
	m.unchanged(mine, 0)

	// A forge to which somebody has pushed since: nothing is lost, and a landing merges it.
	theirs := process.NewWorkTree(t, m.forge)
	theirs.Replace(west, "amf-west", "amf-west-2")
	theirs.Push("Rename")
	w.Replace(east, "the blue one", "the green one")
	w.Commit("Explain better")
	if said, err := pushed(w, "main"); err == nil || !strings.Contains(said, "another commit was faster") && !strings.Contains(said, "fetch first") {
		t.Errorf("behind: %s", said)
	}
	m.unchanged(m.head(m.forge), 0)
	if said, err := pushed(w, "refs/for/main"); err != nil || !strings.Contains(said, "merges it") {
		t.Fatalf("landing: %s", said)
	}
	m.unchanged(m.head(m.forge), 0)
	theirs.Pull()
	if text := theirs.Read(east) + theirs.Read(west); !strings.Contains(text, "the green one") || !strings.Contains(text, "amf-west-2") {
		t.Errorf("on the forge is %s", text)
	}
}

func TestAPushToAMirrorWhoseForgeIsAwayOrRefusesChangesNothing(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	m := withMirrors(t, 1)
	w := m.clone(0, "ops")
	w.Replace(east, "name: amf-east\n", "name: amf-east # the blue one\n")
	w.Commit("Explain")
	was := m.head(m.forge)
	hook := filepath.Join(m.forge, "hooks", "pre-receive")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\necho main is protected\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"main", "refs/for/main"} {
		if said, err := pushed(w, ref); err == nil || !strings.Contains(said, "main is protected") {
			t.Errorf("a forge that refuses, to %s: %s", ref, said)
		}
		m.unchanged(was, 0)
	}
	if err := os.Remove(hook); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(m.forge, m.forge+".away"); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"main", "refs/for/main"} {
		if said, err := pushed(w, ref); err == nil || !strings.Contains(said, "git server of the desired repository can't be asked") || !strings.Contains(said, "nothing was changed") {
			t.Errorf("a forge that is away, to %s: %s", ref, said)
		}
	}
	if err := os.Rename(m.forge+".away", m.forge); err != nil {
		t.Fatal(err)
	}
	m.unchanged(was, 0)
	if said, err := pushed(w, "main"); err != nil {
		t.Errorf("afterwards: %s", said)
	}
	m.unchanged(w.Git("rev-parse", "HEAD"), 0)
}

func TestFromAMirrorOnlyTheBranchIsPushedOnAndTheForgeIsNamedForTheRest(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	forge := process.NewForge(t, map[string]string{"README.md": "First\n"})
	data := process.ShortTempDir(t)
	if err := os.WriteFile(datadir.TokensFile(data), []byte(pushTokens), 0o600); err != nil {
		t.Fatal(err)
	}
	// Whom Jibe logs in as is for no one else to see.
	s := process.Start(t, data, "--remote", (&url.URL{Scheme: "file", User: url.User("secret-token"), Host: "localhost", Path: forge}).String())
	w := process.NewWorkTree(t, as(s, "ops", "desired.git"))
	for _, ref := range []string{"refs/heads/other", "refs/tags/v1", "refs/for/other"} {
		said, err := pushed(w, ref)
		if err == nil || ref != "refs/for/other" && !strings.Contains(said, "push other branches and tags to file://localhost"+forge) || strings.Contains(said, "secret-token") {
			t.Errorf("%s: %v, %s", ref, err, said)
		}
	}
	if out, err := process.Git(t.Context(), forge, "for-each-ref"); err != nil || strings.Count(out, "\n") != 0 {
		t.Errorf("the forge has %s, %v", out, err)
	}
}

func TestPushesThroughSeveralMirrorsAllLandAndEachShowsThem(t *testing.T) {
	t.Parallel()
	m := withMirrors(t, 2)
	var all sync.WaitGroup
	const each = 4
	for n, who := range []string{"east", "west"} {
		w, file := m.clone(n, who), []string{east, west}[n]
		all.Go(func() {
			for i := range each {
				w.Write(file, fmt.Sprintf("# %d\n", i)+w.Read(file))
				w.Commit(fmt.Sprintf("Change %d", i))
				if said, err := pushed(w, "refs/for/main"); err != nil {
					t.Errorf("%s: %s", who, said)
				}
			}
		})
	}
	all.Wait()
	at := m.head(m.forge)
	for n := range m.s {
		// A fetch waits a second for what the other has answered: longer than it takes, but not on every machine.
		w := m.clone(n, "ops")
		kit.Until(t, fmt.Sprintf("mirror %d shows what the forge has", n), func() bool {
			w.Reset()
			return w.Git("rev-parse", "HEAD") == at
		})
		for _, file := range []string{east, west} {
			for i := range each {
				if !strings.Contains(w.Read(file), fmt.Sprintf("# %d\n", i)) {
					t.Errorf("%s lacks change %d", file, i)
				}
			}
		}
	}
	if out, err := process.Git(t.Context(), m.forge, "log", "--format=%s", "--no-merges", "main"); err != nil || strings.Count(out, "Change ") != 2*each {
		t.Errorf("the history is %s, %v", out, err)
	}
}
