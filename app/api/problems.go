package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jibe-vnfm/jibe/app/answer"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Problems gathers why files at the head of the desired repository aren't obeyed, and at which VIMs objects belong to no
// VNF, from
// the parts that know: the repository (files that can't be read, or are held back), the
// reconciler (files that ask for the impossible), the rollouts (files that bring nothing), the catalogue (places in
// repositories.yaml without packages, and repositories that can't be read) and the resolver of references (VIMs that are never
// used). It decides nothing, and remembers only when each problem was seen first.
type Problems struct {
	repo         problemRepo
	infeasible   func() []reconciler.Problem
	infeasibleOf func(instance string) (reconciler.Problem, bool)
	packages     func() []packages.Unusable
	failing      func() []*packages.RepositoryError
	forbidden    func() []*desired.Problem
	rollouts     func(ctx context.Context) ([]desired.Problem, error)
	orphans      func() []reconciler.Problem
	now          func() time.Time
	log          *slog.Logger

	mu    sync.Mutex // guards what follows; one look at a time
	since map[desired.Problem]time.Time
	files filed
}

// problemRepo is what problems need of the desired repository.
type problemRepo interface {
	Head() string
	Problems() []*desired.Problem
	Whose(file string) string
}

// filed are the problems that the files at one commit have by themselves.
type filed struct {
	head string
	at   time.Time
	of   map[string][]desired.Problem // by instance
}

// filedAge bounds for how long the answer about one commit is used again: a person may
// accept what is held back of it, without a commit.
const filedAge = time.Second

// ProblemsConfig are the parts that know of problems.
type ProblemsConfig struct {
	Repo     problemRepo
	View     *reconciler.View
	Packages interface {
		Problems() []packages.Unusable
		Failing() []*packages.RepositoryError
	}
	Rollouts interface {
		Problems(ctx context.Context) ([]desired.Problem, error)
	}
	// Forbidden are VIMs and peers that are never used, as they refer to something forbidden.
	Forbidden func() []*desired.Problem
	Log       *slog.Logger
}

// NewProblems makes them.
func NewProblems(c ProblemsConfig) *Problems {
	return &Problems{
		repo: c.Repo, infeasible: c.View.Problems, infeasibleOf: c.View.Problem, packages: c.Packages.Problems, failing: c.Packages.Failing, forbidden: c.Forbidden,
		rollouts: c.Rollouts.Problems, orphans: c.View.OrphanProblems, now: time.Now, log: c.Log, since: map[desired.Problem]time.Time{},
	}
}

// List returns every problem that there is now, by file and line.
func (p *Problems) List() []reconciler.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := append(p.infeasible(), p.orphans()...)
	for _, x := range p.inFiles() {
		list = append(list, reconciler.Problem{Problem: x, Instance: p.whose(x)})
	}
	list = append(list, p.ofRepositories()...)
	there := make(map[desired.Problem]time.Time, len(list))
	for i := range list {
		x := &list[i]
		if x.VIM != "" {
			continue // the reconciler logs it, and knows since when it is so
		}
		was, known := p.since[x.Problem]
		if !known {
			p.log.Warn("a file is not obeyed", "file", x.File, "line", x.Line, "instance", x.Instance, "error", x.Message)
			was = p.now()
		}
		x.Since = cmp.Or(x.Since, was)
		there[x.Problem] = x.Since
	}
	for x := range p.since {
		if _, still := there[x]; !still {
			p.log.Info("a file is obeyed again", "file", x.File, "line", x.Line, "error", x.Message)
		}
	}
	p.since = there
	slices.SortFunc(list, func(a, b reconciler.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
	})
	return list
}

// inFiles are the problems that can be seen without looking at what runs.
func (p *Problems) inFiles() []desired.Problem {
	var list []desired.Problem
	for _, x := range p.repo.Problems() {
		list = append(list, *x)
	}
	for _, x := range p.forbidden() {
		list = append(list, *x)
	}
	list = append(list, p.ofPackages()...)
	list = append(list, p.inRollouts()...)
	slices.SortFunc(list, func(a, b desired.Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), strings.Compare(a.Message, b.Message))
	})
	return slices.Compact(list)
}

// ofRepositories are the package repositories that can't be fetched or read.
func (p *Problems) ofRepositories() []reconciler.Problem {
	var list []reconciler.Problem
	for _, x := range p.failing() {
		list = append(list, reconciler.Problem{Repository: x.Repository, Problem: desired.Problem{File: desired.RepositoriesFile,
			Message: fmt.Sprintf("repository %s can't be fetched or read, what it had is still offered: %v", x.Repository, x.Err),
			Remedy:  "see whether its server and its credentials work; where git refuses an object, have the repository's owner remove it"}})
	}
	return list
}

// ofPackages are the problems of packages in their repositories.
func (p *Problems) ofPackages() []desired.Problem {
	var list []desired.Problem
	for _, x := range p.packages() {
		if remedy, ok := remedyOf(x); ok {
			list = append(list, desired.Problem{File: "repositories.yaml",
				Message: fmt.Sprintf("repository %s: %s at %s: %v", x.Repository, cmp.Or(x.Path, "."), x.Ref, x.Err),
				Remedy:  remedy})
		}
	}
	return list
}

// remedyOf says what to do about a package that can't be used, "" where its error does; ok is
// false for one that is merely broken, which is for its author to repair.
func remedyOf(x packages.Unusable) (remedy string, ok bool) {
	switch {
	case errors.Is(x.Err, packages.ErrNoFiles), errors.Is(x.Err, vnfd.ErrPointer): // what was pushed isn't the files
		return "", true
	case errors.Is(x.Err, packages.ErrDamaged):
		return "put the objects back into the server's desired repository, from a backup or a clone of the package repository", true
	case x.Tree == "": // no package is there
		return "correct its path, branch or tags", true
	case errors.Is(x.Err, packages.ErrUnverified):
		return "sign that version with a key that is trusted, or remove it", true
	}
	return "", false
}

// rolloutsTime bounds how long the files of rollouts are read.
const rolloutsTime = 5 * time.Second

// inRollouts are the problems of files of rollouts.
func (p *Problems) inRollouts() []desired.Problem {
	ctx, cancel := context.WithTimeout(context.Background(), rolloutsTime) // no list of problems has a context
	defer cancel()

	list, err := p.rollouts(ctx)
	if err != nil {
		p.log.Warn("the files of rollouts can't be read, will be tried again", "error", err)
	}

	return list
}

// Of are the problems of one instance's file.
func (p *Problems) Of(instance string) []desired.Problem {
	var list []desired.Problem
	if x, ok := p.infeasibleOf(instance); ok {
		list = append(list, x.Problem)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if head := p.repo.Head(); p.files.of == nil || p.files.head != head || p.now().Sub(p.files.at) > filedAge {
		p.files = filed{head: head, at: p.now(), of: map[string][]desired.Problem{}}
		for _, x := range p.repo.Problems() {
			if id := p.whose(*x); id != "" {
				p.files.of[id] = append(p.files.of[id], *x)
			}
		}
	}
	return append(list, p.files.of[instance]...)
}

// whose is the instance that a problem is about: the one that it names, else that of its
// file.
func (p *Problems) whose(x desired.Problem) string { return cmp.Or(x.Instance, p.repo.Whose(x.File)) }

// lookAgain is how often problems are looked for although nobody has requested them: they
// must be in the log, and their age must be right.
const lookAgain = time.Second

// Run notices problems until ctx ends.
func (p *Problems) Run(ctx context.Context) error {
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		p.List()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// listProblems answers with all problems, or those of the instance that the query names.
func (s *API) listProblems(w http.ResponseWriter, r *http.Request) {
	scope := s.scope(w, r)
	if scope == nil {
		return
	}
	list := s.Problems.List()
	if !scope.Everything() {
		list = slices.DeleteFunc(list, func(x reconciler.Problem) bool { return !seesFile(scope, x.File) })
	}
	if id := r.URL.Query().Get("instance"); id != "" {
		list = slices.DeleteFunc(list, func(x reconciler.Problem) bool { return x.Instance != id })
	}
	if list == nil {
		list = []reconciler.Problem{}
	}
	answer.JSON(w, http.StatusOK, list)
}
