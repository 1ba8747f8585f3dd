package hooks

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/plan"
)

// runPrefix begins the name of a run's directory.
const runPrefix = "run-"

// workspace is what is written for one run, in a directory of its own:
//
//	package/, other/   working copies, read-only but for scripts of the older contract
//	python_adapter/    what runs those
//	files/             what Call.Files holds
//	home/, tmp/        the hook's own
type workspace struct {
	dir   string
	copy  string // of the package with the hook: where it runs
	argv  []string
	env   []string
	input Input
	// path is that of the hook's file in the package, first the beginning of the file's
	// first line; older says that it speaks the older contract, and class names what is
	// called of a file that doesn't start by itself.
	path  string
	first string
	older bool
	class string
}

// prepare writes all that the hook needs. An error that is the hook's own is a
// [*FailedError]. Where there is an error, nothing is left behind.
func (r *Runner) prepare(c Call, who *identity) (_ *workspace, err error) {
	if c.Package == nil || c.Package.Files == nil {
		return nil, errors.New("no package is given")
	}
	w := &workspace{path: path.Clean(c.Path)}
	if err := w.look(c); err != nil {
		return nil, err
	}
	if err := r.makeDir(); err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp(r.Dir, runPrefix); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.remove()
		}
	}()
	w.copy = filepath.Join(w.dir, "package")
	home, tmp := filepath.Join(w.dir, "home"), filepath.Join(w.dir, "tmp")
	if err := os.Chmod(w.dir, 0o711); err != nil {
		return nil, err
	}
	for _, dir := range []string{home, tmp} {
		if err := errors.Join(os.Mkdir(dir, 0o700), who.give(dir)); err != nil {
			return nil, err
		}
	}
	if err := copyOut(c.Package.Files, w.copy); err != nil {
		return nil, fmt.Errorf("working copy of the package: %w", err)
	}
	other := ""
	if c.Other != nil && c.Other.Tree != c.Package.Tree {
		other = filepath.Join(w.dir, "other")
		if err := copyOut(c.Other.Files, other); err != nil {
			return nil, fmt.Errorf("working copy of the other package: %w", err)
		}
	}
	w.input = given(c, w.copy, other)
	w.input.TimeoutSeconds = int(c.timeout().Seconds())
	tool, err := r.placeTool()
	if err != nil {
		return nil, fmt.Errorf("place %s where hooks find it: %w", r.Tool, err)
	}
	search := searchPath
	if tool != "" {
		search = tool + ":" + search
	}
	w.env = []string{
		"PATH=" + search, "LANG=C.UTF-8", "HOME=" + home, "TMPDIR=" + tmp, hookVariable + "=" + c.Input.Hook,
	}
	if c.Traceparent != "" {
		w.env = append(w.env, "TRACEPARENT="+c.Traceparent)
	}
	if err := w.writeFiles(c.Files, who); err != nil {
		return nil, err
	}
	if c.Cluster {
		if tool == "" {
			return nil, &FailedError{Path: w.path, Reason: "the driver of Kubernetes clusters that takes its place isn't here: jibe has no executable to run it with"}
		}
		w.argv = []string{filepath.Join(tool, toolName), "driver", "kubernetes-cluster"}
		return w, nil
	}
	return w, w.command(who)
}

// writeFiles writes the files that the hook is given, each named by a variable of its environment.
func (w *workspace) writeFiles(files map[string][]byte, who *identity) error {
	dir := filepath.Join(w.dir, "files")
	if err := errors.Join(os.Mkdir(dir, 0o711), os.Chmod(dir, 0o711)); err != nil {
		return err
	}
	for name, data := range files {
		if !variable.MatchString(name) {
			return fmt.Errorf("%q can't name an environment variable", name)
		}
		to := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(to, data, 0o400), os.Chmod(to, 0o400), who.give(to)); err != nil {
			return err
		}
		w.env = append(w.env, name+"="+to)
	}
	return nil
}

// hookVariable has what Input.Hook says, and marks the processes of hooks.
const hookVariable = "JIBE_HOOK"

var variable = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// given returns the input with the directories of the working copies, and with empty lists
// where there are none. dir is the copy of the package with the hook.
func given(c Call, dir, other string) Input {
	in := c.Input
	place := func(p *Package) *Package {
		if p == nil {
			return nil
		}
		at := *p
		switch {
		case p.Tree == c.Package.Tree:
			at.Dir = dir
		case c.Other != nil && p.Tree == c.Other.Tree:
			at.Dir = other
		}
		return &at
	}
	in.Version = cmp.Or(in.Version, Version)
	in.Before, in.After = place(in.Before), place(in.After)
	in.Objects, in.Services = listed(in.Objects), listed(in.Services)
	in.Added, in.Removed = listed(in.Added), listed(in.Removed)
	in.Grant.Add, in.Grant.Remove = listed(in.Grant.Add), listed(in.Grant.Remove)
	in.VDUs = append([]VDU{}, in.VDUs...)
	for i, v := range in.VDUs {
		in.VDUs[i].Old, in.VDUs[i].New = listed(v.Old), listed(v.New)
	}
	return in
}

// toolDir is where the copy of [Runner.Tool] stands, below Runner.Dir, and toolName its name.
const (
	toolDir  = "bin"
	toolName = "jibe"
)

// placeTool copies the tool to where the user of hooks may run it, once in the life of the
// Runner, and returns the directory; "" where there is no tool. A hook that still runs a
// former copy keeps it: the new one takes its name.
func (r *Runner) placeTool() (dir string, err error) {
	if r.Tool == "" {
		return "", nil
	}
	r.tool.Lock()
	defer r.tool.Unlock()
	dir = filepath.Join(r.Dir, toolDir)
	if r.tool.copied {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	from, err := os.Open(r.Tool)
	if err != nil {
		return "", err
	}
	defer from.Close()
	to, err := os.CreateTemp(dir, ".new-")
	if err != nil {
		return "", err
	}
	defer os.Remove(to.Name())
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return "", err
	}
	if err := os.Rename(to.Name(), filepath.Join(dir, toolName)); err != nil {
		return "", err
	}
	r.tool.copied = true
	return dir, nil
}

// listed makes no list an empty one: hooks needn't know null.
func listed[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// look checks that the file is one that can be run, before anything is written.
func (w *workspace) look(c Call) error {
	files := c.Package.Files
	fail := func(format string, args ...any) error {
		return &FailedError{Path: w.path, Reason: fmt.Sprintf(format, args...)}
	}
	if !fs.ValidPath(w.path) {
		return fail("it isn't a path inside the package: write it relative to the directory that holds TOSCA-Metadata, without \"..\"")
	}
	info, err := fs.Stat(files, w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail("it isn't in the package: add it, or correct the path in the request or the VNFD")
	case err != nil:
		return fmt.Errorf("read the package: %w", err)
	case info.IsDir():
		return fail("it is a directory: name the program in it")
	case !info.Mode().IsRegular():
		return fail("it isn't a regular file")
	case info.Size() == 0:
		return fail("it is empty: begin it with a line such as #!/bin/sh")
	}
	f, err := files.Open(w.path)
	if err != nil {
		return fmt.Errorf("read the package: %w", err)
	}
	defer f.Close()
	buf := make([]byte, 256)
	n, err := f.Read(buf)
	if n == 0 {
		return fmt.Errorf("read the package: %w", err)
	}
	line, _, _ := bytes.Cut(buf[:n], []byte{'\n'})
	if w.first = string(line); !executable(line) && path.Ext(w.path) != ".py" {
		return fail("this machine can't tell how to run it: begin it with a line such as #!/bin/sh or #!/usr/bin/env python3")
	}
	if path.Ext(w.path) != ".py" || c.Cluster {
		w.older = c.Input.Hook == plan.UserData
		return nil
	}
	text, err := lookAt(files, w.path)
	if err != nil {
		return fmt.Errorf("read the package: %w", err)
	}
	w.older = text.speaksOlder(w.path, c.Input.Hook, c.Input.Class)
	if text.starts == no && c.Input.Hook != plan.UserData {
		reason := ""
		if w.class, reason = text.class(c.Input.Hook, c.Input.Class); reason != "" {
			return fail("it would do nothing: %s", reason)
		}
	}
	return nil
}

// command sets how the hook is run.
func (w *workspace) command(who *identity) error {
	file := filepath.Join(w.copy, filepath.FromSlash(w.path))
	w.argv = []string{file}
	if executable([]byte(w.first)) && !w.older {
		return nil
	}
	python := interpreter("python3")
	if python == "" {
		return &FailedError{Path: w.path, Reason: errNoPython.Error()}
	}
	if w.older {
		return w.adapt(python, file, who)
	}
	w.argv = []string{python, file}
	return nil
}

// executable says whether the system knows what to do with a file that begins so.
func executable(data []byte) bool {
	return bytes.HasPrefix(data, []byte("#!")) || bytes.HasPrefix(data, []byte("\x7fELF"))
}

// explain says why a hook couldn't be started, and what to do about it.
func (w *workspace) explain(err error, who *identity, c Confinement) error {
	reason := ""
	line, script := strings.CutPrefix(w.first, "#!")
	name, _, _ := strings.Cut(strings.TrimLeft(line, " \t"), " ")
	switch {
	case script && strings.HasSuffix(w.first, "\r"):
		reason = "its lines end with CR LF, so that its interpreter can't be found: end them with LF alone"
	case script && errors.Is(err, fs.ErrNotExist):
		reason = fmt.Sprintf("its interpreter %s isn't there: install it where Jibe runs, or name another in the first line", name)
	case errors.Is(err, fs.ErrNotExist):
		reason = "what it needs to be loaded isn't there: build it for this machine, best without dynamic libraries"
	case errors.Is(err, syscall.ENOEXEC):
		reason = "it isn't a program for this machine: build it for this one, or begin a script with a line such as #!/bin/sh"
	case errors.Is(err, syscall.EACCES) && !reachable(w.copy, who):
		return fmt.Errorf("%s can't reach %s: let others pass through its parents (chmod o+x), or run Jibe with another TMPDIR", who.String(), w.copy)
	case errors.Is(err, syscall.EACCES) && script && !c.Unconfined && !c.reaches(name):
		reason = fmt.Sprintf("its interpreter %s isn't where hooks may run programs from: name one below %s in the first line, or start jibe serve with --hook-path", name, strings.Join(c.places(), ", "))
	case errors.Is(err, syscall.EACCES):
		reason = fmt.Sprintf("it, or its interpreter, may not be executed by %s: is %s on a file system that is mounted noexec?", who.String(), filepath.Dir(w.dir))
	default:
		return err
	}
	return &FailedError{Path: w.path, Reason: reason}
}

// remove removes the workspace with whatever the hook made in it. No process of the hook is
// left by then.
func (w *workspace) remove() { removeAll(w.dir) }

func removeAll(dir string) {
	// Credentials go first.
	_ = os.RemoveAll(filepath.Join(dir, "files"))
	if os.RemoveAll(dir) == nil {
		return
	}
	// Unless Jibe is root, it can remove nothing from directories that it may not write to.
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

// Sweep ends what the hooks of a former process left running, and removes what was written
// for them. It is called before the first Run.
func (r *Runner) Sweep() error {
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := r.makeDir(); err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), runPrefix) && e.IsDir() {
			dir := filepath.Join(r.Dir, e.Name())
			killStrays(dir)
			err = errors.Join(err, r.removeCgroup(dir))
			removeAll(dir)
		}
	}
	return err
}

// removeRun removes the directory of an interrupted run, if it is one of this Runner's.
func (r *Runner) removeRun(dir string) {
	if filepath.Dir(dir) == filepath.Clean(r.Dir) && strings.HasPrefix(filepath.Base(dir), runPrefix) {
		removeAll(dir)
	}
}
