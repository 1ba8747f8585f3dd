package secret

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Reveal returns a deep copy of params in which each reference is what it stands for;
// all other values are as they were. An error names the entry. A file of the
// installation's own, below the directory of its key, is [ErrMissing]: what is
// revealed goes to programs, and parameters come from whoever may operate a VNF.
func (k *Keeper) Reveal(params map[string]any) (map[string]any, error) {
	if params == nil {
		return nil, nil
	}
	out, err := k.reveal("", walk(params, func(map[string]any) {}))
	if err != nil {
		return nil, err
	}
	return out.(map[string]any), nil
}

// reveal changes v, which is nobody else's, in place where it can.
func (k *Keeper) reveal(at string, v any) (any, error) {
	switch v := v.(type) {
	case string:
		if !IsRef(v) {
			return v, nil
		}
		clear, err := "", k.outside(v)
		if err == nil {
			clear, err = k.Resolve(v)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		return clear, nil
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e, err := k.reveal(strings.TrimPrefix(at+"."+key, "."), v[key])
			if err != nil {
				return nil, err
			}
			v[key] = e
		}
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e, err := k.reveal(strings.TrimPrefix(at+"."+key, "."), v[key])
			if err != nil {
				return nil, err
			}
			v[key] = e.(string)
		}
	case []any:
		for i := range v {
			e, err := k.reveal(fmt.Sprintf("%s[%d]", at, i), v[i])
			if err != nil {
				return nil, err
			}
			v[i] = e
		}
	}
	return v, nil
}

// outside refuses references to files of the installation itself.
func (k *Keeper) outside(ref string) error {
	path, ok := strings.CutPrefix(ref, desired.RefFile)
	if !ok || k.dir == "" {
		return nil
	}
	own, ownErr := filepath.EvalSymlinks(k.dir)
	target, err := filepath.EvalSymlinks(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %w", ErrMissing, err)
	}
	if err := errors.Join(ownErr, err); err != nil {
		return err
	}
	if rel, err := filepath.Rel(own, target); err != nil || filepath.IsLocal(rel) {
		return fmt.Errorf("%w: %s belongs to Jibe itself: keep what programs need outside of its data directory", ErrMissing, path)
	}
	return nil
}
