package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/message"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/gitname"
)

// PushPolicy is what [Checker.CheckPush] judges by.
type PushPolicy struct {
	// Options are the push's, see PushOptions.
	Options []string
	// Lookup finds the directory of an instance at the old head. A server that knows all
	// instances sets it; nil asks git, which is slower.
	Lookup func(id string) (dir string, ok bool)
}

// CheckPush returns the reasons in git alone for which a push is refused: files that can't be
// parsed, duplicate ids, moved directories without an id, links and submodules, oversized
// files, too many terminations, secrets in clear that weren't there before, and what
// [Checker.CheckRefs] finds. What other branches and tags hold passes, and what is to land is judged
// when it does. An error means that the
// push couldn't be checked, and must be refused too.
func (r *Checker) CheckPush(ctx context.Context, updates []RefUpdate, policy PushPolicy) ([]*desired.Problem, error) {
	if Lands(updates) {
		return r.checkLanding(ctx, updates)
	}
	var out []*desired.Problem
	for _, u := range updates {
		switch {
		case u.Ref != r.Ref():
			ps, err := r.checkRefs(ctx, true, u)
			if err != nil {
				return nil, fmt.Errorf("check push of %s: %w", u.Ref, err)
			}
			out = append(out, ps...)
		case u.New == "":
			out = append(out, &desired.Problem{File: u.Ref, Message: "the branch of the desired state can't be deleted", Remedy: "to terminate instances, remove their directories in a commit"})
		default:
			ps, err := r.checkMain(ctx, u, policy)
			if errors.Is(err, read.ErrUnfolds) {
				ps, err = []*desired.Problem{{File: read.InstancesDir, Message: err.Error(), Remedy: "push fewer directories at once"}}, nil
			}
			if err != nil {
				return nil, fmt.Errorf("check push of %s: %w", u.Ref, err)
			}
			out = append(out, ps...)
		}
	}
	return out, nil
}

func (r *Checker) checkMain(ctx context.Context, u RefUpdate, policy PushPolicy) ([]*desired.Problem, error) {
	if u.Old != "" {
		if forward, err := r.forward(ctx, u); err != nil {
			return nil, err
		} else if !forward {
			return []*desired.Problem{{File: u.Ref, Message: "its history can't be rewritten: it has commits that this push lacks (non-fast-forward)",
				Remedy: "fetch first, or have the change merged: " + LandingCommand(u.New, r.Branch)}}, nil
		}
	}
	d, err := r.Difference(ctx, u.Old, u.New)
	if err != nil {
		return nil, err
	}
	problems := d.Problems
	fresh := freshLinks(d.Dirs)
	if slices.ContainsFunc(d.Dirs, func(c read.DirChange) bool { return c.Deep }) {
		return problems, nil // the other checks walk what is below
	}
	for _, l := range d.Losses {
		// An id that was derived from the directory is lost by a plain git mv, whether the VNF
		// runs or not.
		if l.Running || l.Moved() || l.Swapped != "" {
			problems = append(problems, l.Problem())
		}
	}
	root, err := r.RootOf(ctx, u.New)
	if err != nil {
		return nil, err
	}
	oldRoot, err := r.RootOf(ctx, u.Old)
	if err != nil {
		return nil, err
	}
	for _, check := range []func() ([]*desired.Problem, error){
		func() ([]*desired.Problem, error) { return r.checkShape(ctx, root, d.Dirs) },
		func() ([]*desired.Problem, error) { return r.checkSpelling(ctx, oldRoot, root, d.Dirs) },
		func() ([]*desired.Problem, error) { return r.checkDuplicates(ctx, u.New, d.Dirs, d.Changes, policy) },
		func() ([]*desired.Problem, error) { return r.JudgeEnds(ctx, oldRoot, d.Ended(), policy.Options) },
		func() ([]*desired.Problem, error) { return r.checkSecrets(ctx, d) },
		func() ([]*desired.Problem, error) { return r.checkGranted(ctx, d) },
		func() ([]*desired.Problem, error) { return r.checkMaintenance(ctx, u, root) },
		func() ([]*desired.Problem, error) { return r.CheckRollouts(ctx, u) },
		func() ([]*desired.Problem, error) { return r.freshNotSettings(ctx, oldRoot, root) },
	} {
		ps, err := check()
		if err != nil {
			return nil, err
		}
		problems = append(problems, ps...)
	}
	if d.Settings {
		_, err = r.SettingsBelow(ctx, root)
		if inv, ok := errors.AsType[*desired.InvalidError](err); ok {
			problems = append(problems, inv.Problems...)
		} else if err != nil {
			return nil, err
		}
		ps, err := r.checkNeeds(ctx, u, d.Changes)
		if err != nil {
			return nil, err
		}
		problems = append(problems, ps...)
	}
	more, err := r.checkLinks(ctx, oldRoot, root)
	if err != nil {
		return nil, err
	}
	return read.AddUnnamed(problems, append(fresh, more...)), nil
}

// checkShape looks at what the changed directories are made of.
func (r *Checker) checkShape(ctx context.Context, root string, dirs []read.DirChange) ([]*desired.Problem, error) {
	var out []*desired.Problem
	if _, ok, err := r.LookupPath(ctx, root, read.InstancesDir+"/"+desired.InstanceFile); err != nil {
		return nil, err
	} else if ok {
		out = append(out, &desired.Problem{File: read.InstancesDir + "/" + desired.InstanceFile, Message: "an instance needs a directory of its own", Remedy: "move it to " + read.InstancesDir + "/<name>/" + desired.InstanceFile})
	}
	if e, ok, err := r.LookupPath(ctx, root, read.InstancesDir); err != nil {
		return nil, err
	} else if ok && !e.IsDir() {
		out = append(out, read.NotAFolder(read.InstancesDir))
	}
	for _, d := range dirs {
		if d.After == "" || d.After == d.Before {
			continue
		}
		if err := CheckDir(d.Dir); err != nil {
			out = append(out, &desired.Problem{File: d.Dir, Message: err.Error(), Remedy: "rename the directory"})
		}
		files, err := r.ListFiles(ctx, d.After)
		if errors.Is(err, git.ErrMissing) {
			return nil, err
		}
		if err != nil {
			out = append(out, &desired.Problem{File: d.Dir, Message: err.Error(), Remedy: "keep it elsewhere"})
			continue
		}
		var names, blobs []string
		for _, f := range files {
			file := path.Join(d.Dir, f.Path)
			switch {
			case f.IsFile():
				names, blobs = append(names, file), append(blobs, f.Hash)
				if path.Base(f.Path) == desired.InstanceFile && f.Path != desired.InstanceFile {
					out = append(out, read.InsideOther(d.Dir, f.Path))
				}
			case f.Path == desired.InstanceFile: // reported where it was to be parsed
			default:
				out = append(out, read.NotAFile(file, f.Entry))
			}
		}
		if len(blobs) > 0 {
			err := r.Objects.Each(ctx, git.KindBlob, blobs, func(i int, _ []byte, err error) error {
				if errors.Is(err, git.ErrTooLarge) && path.Base(names[i]) != desired.InstanceFile {
					out = append(out, &desired.Problem{File: names[i], Message: err.Error(), Remedy: "keep large files elsewhere"})
					return nil
				}
				if errors.Is(err, git.ErrTooLarge) {
					return nil
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// checkDuplicates finds unchanged instances that have an id which the push gives
// to another directory.
func (r *Checker) checkDuplicates(ctx context.Context, commit string, dirs []read.DirChange, changes []read.Change, policy PushPolicy) ([]*desired.Problem, error) {
	changed := map[string]bool{}
	for _, d := range dirs {
		changed[d.Dir] = true
	}
	claims := map[string]string{} // id -> the directory that newly claims it
	for _, c := range changes {
		if c.After.Tree != "" && (c.Before.Tree == "" || c.Before.Dir != c.After.Dir) {
			claims[c.After.Instance] = c.After.Dir
		}
	}
	if len(claims) == 0 {
		return nil, nil
	}
	lookup := policy.Lookup
	if lookup == nil {
		found, err := r.owners(ctx, commit, claims, changed)
		if err != nil {
			return nil, err
		}
		lookup = func(id string) (string, bool) { dir, ok := found[id]; return dir, ok }
	}
	var out []*desired.Problem
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		if dir, ok := lookup(id); ok && dir != claims[id] && !changed[dir] {
			out = append(out, &desired.Problem{
				File:    path.Join(claims[id], desired.InstanceFile),
				Message: fmt.Sprintf("id %s is already that of %s", id, path.Join(dir, desired.InstanceFile)),
				Remedy:  "give it another id, or none",
			})
		}
	}
	return out, nil
}

// FewClaims is how many ids git looks for one by one.
const FewClaims = 4

// uuidPattern is what every id is.
const uuidPattern = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"

// owners finds the unchanged directories that have one of the ids, without
// parsing every file: those whose text names an id, and those from whose path it
// is derived.
func (r *Checker) owners(ctx context.Context, commit string, claims map[string]string, changed map[string]bool) (map[string]string, error) {
	glob := ":(glob)" + read.InstancesDir + "/**/" + desired.InstanceFile
	// git tries each pattern on each file, so that the ids of many are looked for as what
	// they all are.
	args, patterns := []string{"grep", "-z", "-l", "-i", "--no-color", "-F", "-f", "-", commit, "--", glob}, ""
	if len(claims) > FewClaims {
		args = []string{"grep", "-z", "-o", "-i", "--no-color", "-E", "-e", uuidPattern, commit, "--", glob}
	} else {
		patterns = strings.Join(slices.Sorted(maps.Keys(claims)), "\n") + "\n"
	}
	// git grep ends with 1 where nothing is found.
	texts, err := r.Git.RunInput(ctx, patterns, args...)
	if err != nil && git.ExitCode(err) != 1 {
		return nil, fmt.Errorf("look for duplicate ids: %w", err)
	}
	all, err := r.Git.Run(ctx, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit, read.InstancesDir+"/")
	if err != nil {
		return nil, fmt.Errorf("look for duplicate ids: %w", err)
	}
	candidates := map[string]bool{}
	if len(claims) > FewClaims {
		for line := range strings.Lines(texts) {
			name, id, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
			if _, ok := claims[strings.ToLower(id)]; !ok {
				continue
			}
			if _, file, ok := strings.Cut(name, ":"); ok {
				candidates[path.Dir(file)] = true
			}
		}
	} else {
		for name := range strings.SplitSeq(texts, "\x00") {
			if _, file, ok := strings.Cut(name, ":"); ok {
				candidates[path.Dir(file)] = true
			}
		}
	}
	for name := range strings.SplitSeq(all, "\x00") {
		if path.Base(name) == desired.InstanceFile {
			if _, ok := claims[desired.DeriveID(path.Dir(name))]; ok {
				candidates[path.Dir(name)] = true
			}
		}
	}
	root, err := r.RootOf(ctx, commit)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, dir := range slices.Sorted(maps.Keys(candidates)) {
		if changed[dir] || nested(dir, candidates) {
			continue
		}
		data, err := r.FileAt(ctx, root, path.Join(dir, desired.InstanceFile))
		if errors.Is(err, desired.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		in, err := desired.ParseInstance(path.Join(dir, desired.InstanceFile), data)
		if err != nil {
			continue // it has no id while it can't be parsed
		}
		if _, claimed := claims[in.ID]; claimed && out[in.ID] == "" {
			out[in.ID] = dir
		}
	}
	return out, nil
}

func nested(dir string, others map[string]bool) bool {
	for up := path.Dir(dir); up != "." && up != read.InstancesDir; up = path.Dir(up) {
		if others[up] {
			return true
		}
	}
	return false
}

// checkSecrets refuses secrets in clear that the push brings. It knows the usual names; only a
// server knows those that a VNFD declares.
func (r *Checker) checkSecrets(ctx context.Context, d read.Difference) ([]*desired.Problem, error) {
	var out []*desired.Problem
	for _, c := range d.Changes {
		if s := d.Slots[c.After]; s == nil || len(s.Exposed) == 0 {
			continue
		}
		after, err := r.Read(ctx, c.After)
		if err != nil {
			return nil, err
		}
		var before *desired.Instance
		if c.Before.Tree != "" {
			if before, err = r.Read(ctx, c.Before); err != nil {
				return nil, err
			}
		}
		files, err := r.Files(ctx, c.After)
		if err != nil {
			return nil, err
		}
		added, _ := desired.Exposed(path.Join(c.After.Dir, desired.InstanceFile), files[desired.InstanceFile], before, after, desired.SecretNames{})
		out = append(out, added...)
	}
	return out, nil
}

// CheckDir accepts a clean path below instances/.
func CheckDir(dir string) error {
	if path.Clean(dir) != dir || !strings.HasPrefix(dir, read.InstancesDir+"/") || strings.Count(dir, "/") > objects.MaxDepth-2 {
		return fmt.Errorf("%q is no directory below %s/", message.Clip(dir), read.InstancesDir)
	}
	return CheckPath(dir)
}

// CheckPath refuses what git or a clone on some file system would refuse.
func CheckPath(p string) error {
	for name := range strings.SplitSeq(p, "/") {
		switch {
		case name == "" || name == "." || name == "..",
			gitname.IsDotGit(name),
			len(name) > 255, strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\\' }):
			return fmt.Errorf("%q can't be a name in a repository", message.Clip(p))
		}
	}
	return nil
}
