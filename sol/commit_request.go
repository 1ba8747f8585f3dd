package sol

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// edited returns the directory's files before and after the change, and the intent as read back
// from the latter, so that exactly what will be committed is checked.
func (a *api) edited(ctx context.Context, k known, now, next *desired.Instance) (old, files desired.Files, after *desired.Instance, err error) {
	next, err = a.sealer(k.head.Dir, a.secretNames(ctx, now, next)).seal(next, now)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encrypt the credentials of instance %s: %w", k.id, err)
	}
	if old, err = a.Repo.Files(ctx, k.base); err != nil {
		return nil, nil, nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	file := path.Join(k.head.Dir, desired.InstanceFile)
	text, after, err := desired.EditInstance(file, old[desired.InstanceFile], differences(now, next)...)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("instance %s: %w", k.id, err)
	}
	files = maps.Clone(old)
	files[desired.InstanceFile] = text
	if desired.MayHaveObjects(after) {
		after.Granted = now.Granted
	} else {
		delete(files, desired.GrantedFile) // it was granted to what ends
	}
	return old, files, after, nil
}

// write commits the draft for the operation. If no commit was made, the operation is abandoned; if
// that isn't known, it stays prepared.
func (a *api) write(ctx context.Context, k known, op lcm.Operation, d *Draft, s *start) (desired.Revision, error) {
	if op.Proposal != nil {
		return a.propose(ctx, k, op, d)
	}
	since := a.Repo.Head()
	w := s.guarded(ctx, k, d.Write())
	w.Trailers = begins(op)
	if d.override != "" {
		w.Trailers = append(w.Trailers, desired.Trailer{Key: desired.TrailerOverride, Value: d.override})
	}
	rev, err := a.Repo.Write(ctx, w)
	if err == nil {
		return rev, nil
	}
	if !errors.Is(err, ErrMoved) {
		// The error may have come after the commit: ask git before forgetting.
		look, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		commit, lerr := a.Repo.FindTrailer(look, since, desired.TrailerOperation, op.ID)
		switch {
		case lerr == nil:
			if rev, ok := a.Repo.Lookup(k.id); ok && rev.Commit == commit {
				return rev, nil
			}
			return rev, fmt.Errorf("%w: commit %s was made, but the repository then failed; operation %s goes on when the server is restarted: %w", desired.ErrUnavailable, commit, op.ID, err)
		case !errors.Is(lerr, desired.ErrNotFound):
			return rev, fmt.Errorf("%w: it isn't known whether operation %s was committed; that shows when the server is restarted: %w", desired.ErrUnavailable, op.ID, errors.Join(err, lerr))
		}
	}
	return rev, a.abandon(ctx, k, op, err)
}

// begins are the trailers of the commit that begins an operation: with the instance's revision, which
// the repository adds, they are what its record is made of again should the store lose it.
func begins(op lcm.Operation) []desired.Trailer {
	t := trailers(op.ID, string(op.Type), op.RequestedBy)
	if op.PinnedVIM != "" {
		t = append(t, desired.Trailer{Key: desired.TrailerPinned, Value: op.PinnedVIM})
	}
	if op.Beside.Commit != "" {
		t = append(t, desired.BesideTrailer(op.Beside))
	}
	if text := desired.OneLine(op.Params); text != "" && text != "null" && text != "{}" && len(text) <= mostParams {
		t = append(t, desired.Trailer{Key: desired.TrailerParams, Value: text})
	}
	return t
}

// mostParams bounds what of a request stands in its commit beside the change, in bytes. Behaviour depends on short
// ones alone, as the time that a termination leaves.
const mostParams = 16 << 10

func trailers(op, typ, by string) []desired.Trailer {
	var t []desired.Trailer
	if op != "" {
		t = append(t, desired.Trailer{Key: desired.TrailerOperation, Value: op})
	}
	t = append(t, desired.Trailer{Key: desired.TrailerType, Value: typ})
	if by != "" {
		t = append(t, desired.Trailer{Key: desired.TrailerRequestedBy, Value: by})
	}
	return t
}

// Author returns the caller in the form of git, "" for nobody.
func Author(who auth.Identity) string {
	if who.Name == "" {
		return ""
	}
	return who.String() + " <" + who.Name + "@jibe.invalid>"
}

// vnf returns what notifications say about the instance.
func (a *api) vnf(ctx context.Context, in *desired.Instance) lcm.VNF {
	v := lcm.VNF{Name: in.Name, VnfdID: in.VnfdID}
	if pkg, err := a.View.Package(ctx, in); err == nil {
		v = product(v, pkg.VNFD)
	}
	return v
}

func product(v lcm.VNF, d *vnfd.VNFD) lcm.VNF {
	v.Provider, v.ProductName, v.SoftwareVersion, v.VnfdVersion = d.Provider, d.ProductName, d.SoftwareVersion, d.Version
	return v
}
