package packages

import (
	"context"
	"fmt"
	"slices"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// Judge returns what is wrong with the parts of a package that the catalogue doesn't read, such
// as its manifests and Heat templates.
type Judge func(*vnfd.Package) []vnfd.Problem

// JudgeBy has each package judged once, when its tree is first seen, by the function by which
// uploads are. What it calls an error is an [Entry]'s Flaw: it is shown, and refuses nothing, as
// instances of the package may run that don't use the file. It is to be called before anything
// is read.
func (c *Catalogue) JudgeBy(judge Judge) { c.judge = judge }

// of is the flaw of the package. The error wraps [errStore] where not all of the package could be
// read, or ctx has ended.
func (j Judge) of(ctx context.Context, p *vnfd.Package) (flaw, err error) {
	if j == nil {
		return nil, nil
	}
	if err := reading(ctx, p, func(p *vnfd.Package) { flaw = j.flaw(p) }); err != nil {
		return nil, err
	}
	return flaw, nil
}

// flaw is what the judge says. A package in git may be hostile, and the judge's libraries are known
// to panic.
func (j Judge) flaw(p *vnfd.Package) (flaw error) {
	defer func() {
		if reason := recover(); reason != nil {
			flaw = fmt.Errorf("its manifests and templates can't be judged: %v", reason)
		}
	}()

	problems := slices.DeleteFunc(j(p), func(x vnfd.Problem) bool { return x.Severity != vnfd.Error })
	if len(problems) == 0 {
		return nil
	}

	return &vnfd.InvalidError{Problems: vnfd.SortProblems(problems)}
}
