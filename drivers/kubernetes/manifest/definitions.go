package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Definitions completes the list of manifests for after's package: a request may
// list only what is new. The other objects that run are carried over from the file at the same
// path, or from the one that holds the same objects, unless its objects are among
// the listed ones; a VDU that nothing listed is gets the file that holds it.
func Definitions(before, after drivers.Source, given []string) ([]string, error) {
	if len(given) == 0 && !listed(before.Instance.Params) {
		return nil, nil
	}
	if len(given) > 0 {
		var err error
		if given, err = definitionFiles(map[string]any{paramFiles: given}, after.Package); err != nil {
			return nil, err
		}
	}
	look, err := newFinder(after.Package)
	if err != nil {
		return nil, err
	}
	l := &lister{look: look, defined: map[id]string{}}
	for _, file := range given {
		if err := l.take(file); err != nil {
			return nil, err
		}
	}
	old, err := running(before)
	if err != nil {
		return nil, err
	}
	if l.gone, err = superseded(before, after, old, l); err != nil {
		return nil, err
	}
	for i := range old {
		if old[i].next, err = l.carry(old[i]); err != nil {
			return nil, err
		}
	}
	if err := l.serve(after); err != nil {
		return nil, err
	}
	return l.inOrderOf(old), nil
}

// predecessor is a file of the package that runs.
type predecessor struct {
	fileSet
	// paths at which it was, the latest first: container updates may move it.
	paths []string
	all   []manifest
	next  string // the file that takes its place, "" where none does
}

// running are the files of what runs, in order.
func running(src drivers.Source) ([]predecessor, error) {
	files, err := definitionFiles(src.Instance.Params, src.Foundation())
	if err != nil {
		return nil, err
	}
	var all []predecessor
	for _, file := range files {
		found, err := readManifests(src.Foundation(), []string{file})
		if err != nil {
			return nil, err
		}
		p := predecessor{fileSet: fileSet{file: file}, paths: []string{file}, all: found}
		for _, m := range found {
			p.ids = append(p.ids, m.id())
		}
		all = append(all, p)
	}
	for i, pkg := range src.Overlays {
		for _, path := range src.Instance.Overlays[i].Paths {
			found, err := readMaps(pkg, path)
			if err != nil {
				return nil, err
			}
			at := slices.IndexFunc(all, func(p predecessor) bool { return p.same(fileSets(found)[0].ids) })
			if at >= 0 && all[at].paths[0] != path {
				all[at].paths = slices.Insert(all[at].paths, 0, path)
			}
		}
	}
	return all, nil
}

// lister makes a list of files of the new package.
type lister struct {
	look    *finder
	files   []string
	all     []manifest    // of the files
	defined map[id]string // the file of each object
	// gone are workloads that were a VDU which another workload is now, with what only
	// they used.
	gone map[id]bool
}

// take puts the file on the list.
func (l *lister) take(file string) error {
	found, err := readManifests(l.look.pkg, []string{file})
	if err != nil {
		return err
	}
	l.files = append(l.files, file)
	for _, m := range found {
		l.all = append(l.all, m)
		l.defined[m.id()] = file
	}
	return nil
}

// carry is the file that takes the place of one that runs: one that is put on the
// list, or that has on it already what this one held; "" where there is none.
func (l *lister) carry(old predecessor) (string, error) {
	file, err := l.becomes(old)
	if err != nil || file == "" || slices.Contains(l.files, file) {
		return file, err
	}
	found, err := readManifests(l.look.pkg, []string{file})
	if err != nil {
		return "", err
	}
	var here, missing []id
	instead := ""
	for _, m := range found {
		at := l.defined[m.id()]
		if at == "" && !l.gone[m.id()] {
			missing = append(missing, m.id())
			continue
		}
		here, instead = append(here, m.id()), cmp.Or(instead, at)
	}
	switch {
	case len(here) == 0:
		return file, l.take(file)
	case len(missing) == 0:
		return instead, nil
	}
	return "", &drivers.RefusedError{Field: "params." + paramFiles, Reason: fmt.Sprintf(
		"%s must be among the files for %s, but the others have what takes the place of %s: list files that hold each object once",
		file, names(missing), names(here))}
}

// becomes is the file at the path of the one that runs, else the one that holds the
// same objects; "" where the new package has neither.
func (l *lister) becomes(old predecessor) (string, error) {
	for _, path := range old.paths {
		if hasFile(l.look.pkg, path) {
			return path, nil
		}
	}
	same := l.look.renamed(old.ids)
	if at := slices.IndexFunc(same, func(file string) bool { return slices.Contains(l.files, file) }); at >= 0 {
		return same[at], nil
	}
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0], nil
	}
	return "", &drivers.RefusedError{Field: "params." + paramFiles, Reason: fmt.Sprintf(
		"%s is gone, and %s hold what it held: list the one that takes its place", old.file, strings.Join(same, " and "))}
}

// superseded are the workloads that were a VDU and are none any more, while the
// package has another for it, with the maps and autoscalers that only they used.
func superseded(before, after drivers.Source, old []predecessor, l *lister) (map[id]bool, error) {
	was, err := flavourOf(before)
	if err != nil {
		return nil, err
	}
	is, err := flavourOf(after)
	if err != nil {
		return nil, err
	}
	left := map[string]bool{} // names
	for _, vdu := range was.VDUs {
		of := targetOf(before.Instance, &vdu)
		now := vduOf(is, func(v vnfd.VDU) bool { return v.ID == vdu.ID })
		still := vduOf(is, func(v vnfd.VDU) bool { return targetOf(after.Instance, &v).name == of.name })
		if now == nil || still != nil {
			continue
		}
		if next := targetOf(after.Instance, now); holds(l.all, next) || holds(l.look.all, next) {
			left[of.name] = true
		}
	}
	gone, needed := map[id]bool{}, map[id]bool{}
	if len(left) == 0 {
		return gone, nil
	}
	running := slices.Clone(l.all)
	for _, p := range old {
		running = append(running, p.all...)
	}
	for _, m := range running {
		into := needed
		if left[m.name] && IsVDUKind(m.gk) {
			gone[m.id()], into = true, gone
		}
		maps.Copy(into, uses(podSpec(m.obj, m.gk)))
	}
	for _, m := range running {
		if m.gk == KindAutoscaler {
			gone[m.id()] = left[raw.String(m.obj.Object, "spec", "scaleTargetRef", "name")]
		}
	}
	maps.DeleteFunc(gone, func(i id, is bool) bool { return !is || needed[i] })
	return gone, nil
}

// serve puts on the list what VDUs lack, as far as the package has it.
func (l *lister) serve(after drivers.Source) error {
	flavour, err := flavourOf(after)
	if err != nil {
		return err
	}
	for _, vdu := range flavour.VDUs {
		of := targetOf(after.Instance, &vdu)
		if holds(l.all, of) {
			continue
		}
		var files []string
		for _, m := range l.look.all {
			if of.isWorkload(m) && !slices.Contains(files, m.file) {
				files = append(files, m.file)
			}
		}
		switch len(files) {
		case 0:
			continue // a VDU without a manifest is as the package wants it
		case 1:
		default:
			return &drivers.RefusedError{Field: "params." + paramFiles, Reason: fmt.Sprintf(
				"VDU %s (%s) is in %s: list the one that is meant", vdu.ID, of, strings.Join(files, " and in "))}
		}
		if _, err := l.carry(predecessor{paths: files}); err != nil {
			return err
		}
	}
	return nil
}

// inOrderOf is the list in the order of the predecessors, with what is new last.
func (l *lister) inOrderOf(old []predecessor) []string {
	var ordered []string
	for _, p := range old {
		if slices.Contains(l.files, p.next) && !slices.Contains(ordered, p.next) {
			ordered = append(ordered, p.next)
		}
	}
	for _, file := range l.files {
		if !slices.Contains(ordered, file) {
			ordered = append(ordered, file)
		}
	}
	return ordered
}

// holds reports whether one of the manifests is the workload that is meant.
func holds(manifests []manifest, of target) bool {
	return slices.ContainsFunc(manifests, of.isWorkload)
}

func vduOf(f *vnfd.Flavour, is func(vnfd.VDU) bool) *vnfd.VDU {
	if i := slices.IndexFunc(f.VDUs, is); i >= 0 {
		return &f.VDUs[i]
	}
	return nil
}
