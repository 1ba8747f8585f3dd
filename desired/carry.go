package desired

import (
	"bytes"
	"maps"
	"strings"
)

// BesideTrailer is what a commit says of the revision that waits beside it.
func BesideTrailer(waits Revision) Trailer {
	return Trailer{Key: TrailerBeside, Value: waits.Commit + " " + waits.Tree}
}

// ParseBeside reads that of a commit which led to a revision; "" is that nothing waited.
func ParseBeside(made Revision, value string) Revision {
	commit, tree, ok := strings.Cut(value, " ")
	if !ok {
		return Revision{}
	}
	return Revision{Instance: made.Instance, Dir: made.Dir, Commit: commit, Tree: tree}
}

// Carry makes in waits, the files of an instance's directory, the changes that lead from one content of it
// to another: those of vnf.yaml key by key, other files as a whole. Where waits has changed the same, that
// stands: it is what its author wants there to be afterwards. nil is a directory that is gone, and stays so.
// dir is the directory's path, for errors.
func Carry(dir string, from, to, waits Files) (Files, error) {
	if len(waits) == 0 {
		return nil, nil
	}
	next := maps.Clone(waits)
	for name := range union(from, to) {
		was, is := from[name], to[name]
		switch {
		case bytes.Equal(was, is):
		case name == InstanceFile:
			text, err := carryInstance(dir+"/"+InstanceFile, was, is, waits[name])
			if err != nil {
				return nil, err
			}
			next[name] = text
		case !bytes.Equal(waits[name], was):
		case is == nil:
			delete(next, name)
		default:
			next[name] = is
		}
	}
	return next, nil
}

// carryInstance is [Carry] of the text of a vnf.yaml.
func carryInstance(file string, from, to, waits []byte) ([]byte, error) {
	m, err := mergeKeys(file, from, to, waits)
	if err != nil {
		return nil, err
	}
	if len(m.changes) == 0 {
		return waits, nil
	}
	return Edit(file, waits, m.changes...)
}

func union(a, b Files) map[string]struct{} {
	all := map[string]struct{}{}
	for _, files := range []Files{a, b} {
		for name := range files {
			all[name] = struct{}{}
		}
	}
	return all
}
