package packages

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// shown is what a catalogue has, newest first.
func (l *lab) shown(c *Catalogue) string {
	l.Helper()
	var got []string
	for _, e := range c.List() {
		got = append(got, fmt.Sprintf("%s=%s hooks:%v", e.Ref, e.Version, c.Hooks(e.Tree)))
	}
	return strings.Join(got, " ")
}

// refs are those of the store.
func (l *lab) refs() string {
	l.Helper()
	return l.git(filepath.Join(l.dir, "desired.git"), "for-each-ref")
}

func TestProposedRepositoriesChangeNothingOfTheCatalogue(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	ours, theirs := l.upstream("ours"), l.upstream("theirs")
	tree := l.release(ours, "", "1.4.0")
	l.put(theirs, "vnfd-1.4.0", "evil")
	evil := l.commit(theirs, "", "v9.0.0")
	repo := desired.Repository{Name: "amf", URL: "ours", Tags: "v*"}
	l.sync(repo)
	before, refs := l.shown(l.c), l.refs()

	p, err := l.c.Propose(t.Context(), []desired.Repository{{Name: "amf", URL: "theirs", Tags: "v*", Hooks: true}})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := p.Find("vnfd-1.4.0"); err != nil || e.Tree != evil || !p.Hooks(evil) {
		t.Errorf("the proposal: %+v %v", e, err)
	}
	if pkg, err := p.Open(t.Context(), evil); err != nil || pkg.VNFD.Version != "evil" {
		t.Errorf("the proposed package: %v", err)
	}
	if _, err := p.Open(t.Context(), tree); err != nil {
		t.Errorf("what runs: %v", err)
	}
	if got := l.shown(l.c); got != before {
		t.Errorf("the catalogue became %s", got)
	}
	if e := l.find("vnfd-1.4.0"); e.Tree != tree || l.c.Hooks(evil) || l.versions(tree, "vnfd-1.4.0") != "1.4.0 of 1.4.0" {
		t.Errorf("found %+v, versions %s", e, l.versions(tree, "vnfd-1.4.0"))
	}
	if got := l.refs(); got != refs {
		t.Errorf("refs were %s\nand became %s", refs, got)
	}
	l.sync(repo)
	if got := l.shown(l.c); got != before {
		t.Errorf("the next sync made %s", got)
	}
}

func TestAProposalFetchesOnlyWhatIsNewInIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	one, two := l.upstream("one"), l.upstream("two")
	l.put(filepath.Join(one, "old"), "old-id", "1.0")
	l.put(filepath.Join(one, "new"), "new-id", "1.0")
	l.commit(one, "")
	l.put(two, "two-id", "1.0")
	l.commit(two, "")
	l.sync(desired.Repository{Name: "one", URL: "one", Path: "old"})
	// Its present is fetched by Sync alone, and so is what else it has at that commit.
	l.put(filepath.Join(one, "new"), "new-id", "2.0")
	l.commit(one, "")
	p, err := l.c.Propose(t.Context(), []desired.Repository{
		{Name: "never", URL: "never.git"}, {Name: "two", URL: "two"}, {Name: "one", URL: "one", Path: "new", Hooks: true},
	})
	var failed *RepositoryError
	if !errors.As(err, &failed) || failed.Repository != "never" || p == nil {
		t.Fatalf("a repository that doesn't exist: %v", err)
	}
	if got := l.shown(p); got != "HEAD=1.0 hooks:false HEAD=1.0 hooks:true" {
		t.Errorf("the proposal has %s", got)
	}
	if _, err := p.Find("old-id"); !errors.Is(err, ErrUnknown) {
		t.Errorf("what the proposal doesn't have any more: %v", err)
	}
}

func TestProposalsAtOnceDoNotSeeEachOther(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	const many = 2 * maxProposals
	for i := range many {
		up := l.upstream(fmt.Sprint("up", i))
		l.put(up, "amf-id", fmt.Sprint(i, ".0"))
		l.commit(up, "")
	}
	l.sync(desired.Repository{Name: "amf", URL: "up0"})
	refs := l.refs()
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			p, err := l.c.Propose(t.Context(), []desired.Repository{{Name: "amf", URL: fmt.Sprint("up", i)}})
			if err != nil {
				t.Error(err)
				return
			}
			if e, err := p.Find("amf-id"); err != nil || e.Version != fmt.Sprint(i, ".0") {
				t.Errorf("proposal %d: %+v %v", i, e, err)
			}
		})
	}
	wg.Wait()
	if e := l.find("amf-id"); e.Version != "0.0" || l.refs() != refs {
		t.Errorf("found %+v; refs %s", e, l.refs())
	}
}

func TestAProposalThatIsGivenUpLeavesNothingAndMakesRoom(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	l.commit(up, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxProposals + 1 {
		if _, err := l.c.Propose(ctx, []desired.Repository{{Name: "amf", URL: "amf"}}); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := l.c.Propose(t.Context(), []desired.Repository{{Name: "amf", URL: "amf"}}); err != nil || l.refs() != "" {
		t.Errorf("the next: %v; refs %s", err, l.refs())
	}
}

func TestWhatACrashLeftOfProposalsGoesAtTheNextStartAndLivingOnesStay(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	commit := l.commit(up, "")
	bare := filepath.Join(l.dir, "desired.git")
	repo := desired.Repository{Name: "amf", URL: "amf"}
	l.sync(repo)
	refs := l.refs()
	l.git(bare, "update-ref", proposed+"crashed/1/amf/tags/v1", commit)
	l.git(bare, "pack-refs", "--all")
	l.git(bare, "update-ref", proposed+"crashed/2/amf/HEAD", commit)
	l.c = l.catalogue()
	living := l.c.proposing + "1/amf/HEAD"
	l.git(bare, "update-ref", living, commit)
	l.sync(repo)
	if got := l.git(bare, "for-each-ref", "--format=%(refname)", proposed); got != living {
		t.Errorf("left: %s", got)
	}
	l.c.forget(t.Context(), l.c.proposing)
	if got := l.refs(); got != refs {
		t.Errorf("refs: %s", got)
	}
}
