package check

import (
	"context"
	"errors"
	"path"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// checkGranted refuses a push that changes what an NFVO granted, see [desired.ForeignGrant].
func (r *Checker) checkGranted(ctx context.Context, d read.Difference) ([]*desired.Problem, error) {
	var out []*desired.Problem
	for _, c := range d.Changes {
		if c.After.Tree == "" {
			continue
		}
		file := path.Join(c.After.Dir, desired.GrantedFile)
		is, err := r.ReadGranted(ctx, c.After)
		var invalid *desired.InvalidError
		if errors.As(err, &invalid) {
			out = append(out, invalid.Problems...)
			continue
		}
		if err != nil {
			return nil, err
		}
		var was *desired.Granted
		if c.Before.Tree != "" {
			if was, err = r.ReadGranted(ctx, c.Before); err != nil {
				return nil, err
			}
		}
		if was.Same(is) {
			continue
		}
		if p, err := r.foreignGrant(ctx, file, c); err != nil {
			return nil, err
		} else if p != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// foreignGrant holds one instance whose granted.yaml differs against the rule. What can't be
// read is reported where it was to be parsed.
func (r *Checker) foreignGrant(ctx context.Context, file string, c read.Change) (*desired.Problem, error) {
	read := func(rev desired.Revision) (*desired.Instance, error) {
		if rev.Tree == "" {
			return nil, nil
		}
		in, err := r.Read(ctx, rev)
		var invalid *desired.InvalidError
		if errors.As(err, &invalid) {
			return nil, nil
		}
		return in, err
	}
	before, err := read(c.Before)
	if err != nil {
		return nil, err
	}
	after, err := read(c.After)
	if err != nil {
		return nil, err
	}
	return desired.ForeignGrant(file, before, after), nil
}
