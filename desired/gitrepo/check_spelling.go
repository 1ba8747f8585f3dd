package gitrepo

import (
	"context"
	"fmt"
	"path"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"github.com/jibe-vnfm/jibe/desired"
)

// checkSpelling refuses a new instance of which a folder is spelled like another one next to it but for case or the Unicode
// form. A clone on macOS or Windows has only one of the two, and its next commit would remove the other.
func (r *Reader) checkSpelling(ctx context.Context, oldRoot, root string, dirs []dirChange) ([]*desired.Problem, error) {
	folders := map[string]map[string]string{} // by tree, and by spelling without case and form: the first name
	fold := func(name string) string { return norm.NFC.String(cases.Fold().String(norm.NFC.String(name))) }
	clash := func(tree, name string) (string, error) {
		names := folders[tree]
		if names == nil {
			t, err := r.tree(ctx, tree)
			if err != nil {
				return "", err
			}
			names = map[string]string{}
			for _, e := range t.Entries() {
				key := fold(e.Name)
				if first, ok := names[key]; ok {
					names[key] = first + "/" + e.Name // no name holds a slash
				} else {
					names[key] = e.Name
				}
			}
			folders[tree] = names
		}
		for other := range strings.SplitSeq(names[fold(name)], "/") {
			if other != name {
				return other, nil
			}
		}
		return "", nil
	}

	var out []*desired.Problem
	for _, d := range dirs {
		if d.before != "" || d.after == "" {
			continue
		}
		at, tree := "", root
		for name := range strings.SplitSeq(d.dir, "/") {
			other, err := clash(tree, name)
			if err != nil {
				return nil, r.damaged("folder "+at, err)
			}
			_, known, err := r.lookupPath(ctx, oldRoot, path.Join(at, name)) // what was there before isn't this push's fault
			if err != nil {
				return nil, r.damaged("folder "+path.Join(at, name), err)
			}
			if other != "" && !known {
				out = append(out, &desired.Problem{File: path.Join(d.dir, desired.InstanceFile),
					Message: fmt.Sprintf("%s and %s differ only in case or Unicode form: a clone on macOS or Windows has one of them", path.Join(at, name), path.Join(at, other)),
					Remedy:  "rename the new one"})
				break
			}
			e, ok, err := r.lookupPath(ctx, tree, name)
			if err != nil || !ok {
				return nil, r.damaged(path.Join(at, name), err)
			}
			at, tree = path.Join(at, name), e.Hash
		}
	}
	return out, nil
}
