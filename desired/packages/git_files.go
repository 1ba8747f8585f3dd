package packages

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/internal/gitname"
)

// checkGitFiles refuses files that git reads itself, such as .gitmodules, of which git says that they are wrong: it refuses
// every commit that has one, and so the whole repository, wherever what comes is checked. git judges them, in a repository that
// has nothing else. The error wraps [errStore] where git can't be asked.
func checkGitFiles(ctx context.Context, files fs.FS) error {
	names, err := gitFiles(files)
	if err != nil || len(names) == 0 {
		return err
	}

	scratch, err := os.MkdirTemp("", "jibe-git-files-")
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	defer os.RemoveAll(scratch)
	runner := writer(filepath.Join(scratch, "judged.git"))
	if _, err := (git.Runner{}).Run(ctx, "init", "--quiet", "--bare", "--initial-branch="+importBranch, runner.Dir); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	if err := fastImport(ctx, runner, func(w *bufio.Writer) error { return writeGitFiles(w, files, names) }); err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}

	_, err = runner.Run(ctx, "fsck", "--strict", "--no-dangling", "--no-progress")
	if failed, ok := errors.AsType[*git.Error](err); ok && failed.Code > 0 {
		return gitRefuses(ctx, runner, names, failed)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStore, err)
	}
	return nil
}

// gitFiles returns the paths of what git may read itself, in order.
func gitFiles(files fs.FS) (names []string, err error) {
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && gitname.IsSpecial(d.Name()) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// writeGitFiles writes what stands at the paths, each in a folder that is called by its index: a folder as one with a file.
func writeGitFiles(w *bufio.Writer, files fs.FS, names []string) error {
	fmt.Fprintf(w, "commit refs/heads/%s\ncommitter %s 0 +0000\ndata 0\n", importBranch, committer)
	for i, name := range names {
		to := path.Join(strconv.Itoa(i), path.Base(name))
		st, err := fs.Stat(files, name)
		if err != nil {
			return err
		}
		if st.IsDir() {
			fmt.Fprintf(w, "M %s inline %s\ndata 0\n\n", git.ModeFile, quotePath(to+"/x"))
			continue
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "M %s inline %s\ndata %d\n%s\n", git.ModeFile, quotePath(to), len(data), data)
	}

	return nil
}

// gitComplaint matches what git fsck says of an object: which, by which rule, and why.
var gitComplaint = regexp.MustCompile(`(?m)^error in (?:blob|tree) ([0-9a-f]{40}): (.+)$`)

// gitRefuses is the error of what git has found.
func gitRefuses(ctx context.Context, runner git.Runner, names []string, failed *git.Error) error {
	complaint := gitComplaint.FindStringSubmatch(failed.Stderr)
	listed, err := runner.Run(ctx, "ls-tree", "-r", "-t", "-z", importBranch)
	if err != nil || complaint == nil {
		return fmt.Errorf("%w: %w", errStore, errors.Join(failed, err))
	}

	file := "a file"
	for line := range strings.SplitSeq(listed, "\x00") {
		about, at, _ := strings.Cut(line, "\t")
		index, _, _ := strings.Cut(at, "/")
		if n, err := strconv.Atoi(index); err == nil && n < len(names) && strings.HasSuffix(about, complaint[1]) {
			file = quoted(names[n])
			break
		}
	}
	return refuse("%s: git refuses every commit that has it (%s): correct it, or leave it out of the package", file, complaint[2])
}
