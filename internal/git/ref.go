package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReadRef returns the commit that a ref names, "" where there is no such ref.
// Content that is no hash is an error: a half-written ref isn't an unborn one.
func ReadRef(gitDir, ref string) (string, error) {
	for range 3 {
		data, err := os.ReadFile(filepath.Join(gitDir, filepath.FromSlash(ref)))
		if err == nil {
			s := strings.TrimSpace(string(data))
			if !IsHash(s) {
				return "", fmt.Errorf("%s in %s holds %.60q where a commit's hash should be: the file is damaged (git doesn't write over it: rm %s, then git -C %s update-ref %s <commit>)",
					ref, gitDir, s, filepath.Join(gitDir, filepath.FromSlash(ref)), gitDir, ref)
			}
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EISDIR) {
			return "", fmt.Errorf("read %s: %w", ref, err)
		}
		packed, err := readPackedRef(gitDir, ref)
		if err != nil || packed != "" {
			return packed, err
		}
		// The ref may have moved from packed to loose between the two looks.
		if _, err := os.Lstat(filepath.Join(gitDir, filepath.FromSlash(ref))); err != nil {
			return "", nil
		}
	}
	return "", fmt.Errorf("read %s in %s: it changes faster than it can be read", ref, gitDir)
}

func readPackedRef(gitDir, ref string) (string, error) {
	data, err := os.ReadFile(filepath.Join(gitDir, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read packed refs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if hash, name, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == ref && IsHash(hash) {
			return hash, nil
		}
	}
	return "", nil
}

// Ref is a ref and the commit that it leads to.
type Ref struct {
	Name, Commit string
	// Tag is the annotated tag by which it does, "" where it names the commit.
	Tag string
}

// Refs returns the refs below prefix that lead to a commit, at once or by a tag.
func (r Runner) Refs(ctx context.Context, prefix string) ([]Ref, error) {
	out, err := r.Run(ctx, "for-each-ref", "--format=%(refname) %(objecttype) %(objectname) %(*objecttype) %(*objectname)", prefix)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		switch {
		case len(f) == 3 && f[1] == KindCommit:
			refs = append(refs, Ref{Name: f[0], Commit: f[2]})
		case len(f) == 5 && f[1] == KindTag && f[3] == KindCommit:
			refs = append(refs, Ref{Name: f[0], Commit: f[4], Tag: f[2]})
		}
	}
	return refs, nil
}

// RefsOfDamaged is Refs of a repository in which refs may lead to objects that can't be read: each of these counts as a
// commit, so that who reads it finds what is wrong.
func (r Runner) RefsOfDamaged(ctx context.Context, prefix string) ([]Ref, error) {
	out, err := r.Run(ctx, "for-each-ref", "--format=%(refname) %(objectname)", prefix)
	if err != nil {
		return nil, err
	}
	var refs []Ref
	var ask strings.Builder
	for line := range strings.Lines(out) {
		name, object, _ := strings.Cut(strings.TrimSpace(line), " ")
		refs = append(refs, Ref{Name: name, Commit: object})
		ask.WriteString(object + "\n")
	}
	// To peel a tag, git would read what may be damaged.
	kinds, err := r.RunInput(ctx, ask.String(), "cat-file", "--batch-check=%(objecttype)")
	if err != nil {
		return nil, err
	}

	sound, i := refs[:0], 0
	for kind := range strings.Lines(kinds) {
		if i == len(refs) {
			break
		}
		ref := refs[i]
		i++
		switch strings.TrimSpace(kind) {
		case KindTree, KindBlob:
			continue
		case KindTag:
			text, err := r.Run(ctx, "cat-file", KindTag, ref.Commit)
			of, rest, _ := strings.Cut(text, "\n")
			commit := strings.TrimPrefix(of, "object ")
			if err != nil || !IsHash(commit) || !strings.HasPrefix(rest, "type "+KindCommit+"\n") {
				continue
			}
			ref.Tag, ref.Commit = ref.Commit, commit
		}
		sound = append(sound, ref)
	}
	return sound, nil
}

// RefNames returns the names of the refs below prefix, whatever they lead to.
func (r Runner) RefNames(ctx context.Context, prefix string) ([]string, error) {
	out, err := r.Run(ctx, "for-each-ref", "--format=%(refname)", prefix)
	return strings.Fields(out), err
}

// DeleteRefs removes all of the refs, or none.
func (r Runner) DeleteRefs(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	var b strings.Builder
	for _, n := range names {
		b.WriteString("delete " + n + "\n")
	}
	_, err := r.RunInput(ctx, b.String(), "update-ref", "--stdin")
	return err
}

// SetRef makes name point at the object, wherever it did before; durable when it
// returns.
func (r Runner) SetRef(ctx context.Context, name, object string) error {
	_, err := r.Run(ctx, "update-ref", "--", name, object)
	return err
}
