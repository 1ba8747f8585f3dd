package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/check"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// repositoryConfig is what every repository of Jibe's is set to at each start; proc are the refs whose
// pushes the hook proc-receive gets. git's default syncs nothing on a push or an update-ref.
func repositoryConfig(proc string) [][2]string {
	return [][2]string{
		{"core.fsync", "all"},
		{"core.fsyncMethod", "fsync"},
		{"core.logAllRefUpdates", "false"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"receive.autogc", "false"},
		{"receive.denyDeletes", "true"},
		{"receive.denyNonFastForwards", "true"},
		{"receive.advertisePushOptions", "true"},
		{"receive.procReceiveRefs", proc},
		{"receive.fsckObjects", "true"},
		{"receive.unpackLimit", "1"},
		{"receive.maxInputSize", "268435456"},
		{"http.receivepack", "true"},
		{"uploadpack.allowFilter", "true"},
		{"uploadpack.allowAnySHA1InWant", "true"},     // a partial clone asks for what it lacks, one by one
		{"uploadpack.hideRefs", "refs/jibe/upstream"}, // a backup needs the pins only
		{"transfer.hideRefs", "refs/jibe/proposed"},   // likewise
		{"pack.threads", "1"},
		{"pack.writeReverseIndex", "false"},
		{"repack.writeBitmaps", "false"},
	}
}

// create makes the bare repository whole under another name and renames it, so
// that a crash never leaves half of one.
func create(ctx context.Context, dir, branch, proc string) error {
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
	}
	tmp, err := os.MkdirTemp(parent, ".new-"+filepath.Base(dir)+"-")
	if err != nil {
		return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
	}
	defer os.RemoveAll(tmp)
	if _, err := (git.Runner{}).Run(ctx, "init", "--quiet", "--bare", "--object-format=sha1", "--template=", "--initial-branch="+branch, tmp); err != nil {
		return fmt.Errorf("%w: create the desired repository %s: %w", desired.ErrUnavailable, dir, err)
	}
	for _, sub := range []string{"hooks", "info", "jibe"} {
		if err := os.MkdirAll(filepath.Join(tmp, sub), 0o700); err != nil {
			return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
		}
	}
	if err := appendConfig(filepath.Join(tmp, "config"), proc); err != nil {
		return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
	}
	// An empty directory that someone made beforehand is fine; rename replaces it.
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
	}
	if err := git.SyncDir(parent); err != nil {
		return fmt.Errorf("%w: create the desired repository: %w", desired.ErrUnavailable, err)
	}
	return nil
}

// appendConfig writes the whole configuration at once: a "git config" for each
// entry would be twenty processes.
func appendConfig(name, proc string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	for _, kv := range repositoryConfig(proc) {
		section, key, _ := strings.Cut(kv[0], ".")
		if _, err := fmt.Fprintf(f, "[%s]\n\t%s = %s\n", section, key, kv[1]); err != nil {
			_ = f.Close()
			return err
		}
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}

// configure sets what isn't set already.
func configure(ctx context.Context, dir, proc string) error {
	runner := git.Runner{Dir: dir}
	out, err := runner.Run(ctx, "config", "--local", "--list", "-z")
	if err != nil {
		return fmt.Errorf("read the configuration of %s: %w (the repository is damaged: restore its config file)", dir, err)
	}
	have := map[string]string{}
	for item := range strings.SplitSeq(out, "\x00") {
		key, value, _ := strings.Cut(item, "\n")
		have[key] = value
	}
	for _, kv := range repositoryConfig(proc) {
		if have[strings.ToLower(kv[0])] == kv[1] {
			continue
		}
		if _, err := runner.Run(ctx, "config", "--local", kv[0], kv[1]); err != nil {
			return fmt.Errorf("%w: configure %s: %w", desired.ErrUnavailable, dir, err)
		}
	}
	return nil
}

// Create makes the bare repository at dir where there is none yet; [Open] does so too.
func Create(ctx context.Context, dir, branch string) error {
	return prepare(ctx, dir, Options{Branch: branch}.withDefaults())
}

// asRestored is how a repository that can't be read is put back. git clones into no directory
// that has anything in it.
func asRestored(dir string) string {
	return fmt.Sprintf("restore it: mv %[1]s %[1]s.broken, then git clone --mirror <a clone> %[1]s", dir)
}

// prepare makes sure that dir is a bare repository that can be used, and makes
// it on the first start.
func prepare(ctx context.Context, dir string, opt Options) error {
	if err := objects.CheckGit(ctx); err != nil {
		return err
	}

	proc := strings.TrimSuffix(check.LandingRefs, "/")
	if opt.Remote != "" {
		proc = check.MirrorRefs
	}
	items, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(items) == 0:
		return create(ctx, dir, opt.Branch, proc)
	case err != nil:
		return fmt.Errorf("%w: open the desired repository: %w", desired.ErrUnavailable, err)
	}
	for _, part := range []string{"HEAD", "objects", "refs", "config"} {
		if _, err := os.Stat(filepath.Join(dir, part)); err != nil {
			return fmt.Errorf("%s is no bare git repository, or half of one: %w (%s, or name an empty or absent directory to start with nothing)", dir, err, asRestored(dir))
		}
	}
	runner := git.Runner{Dir: dir}
	out, err := runner.Run(ctx, "rev-parse", "--is-bare-repository", "--show-object-format")
	if err != nil {
		return fmt.Errorf("open the desired repository %s: %w (%s)", dir, err, asRestored(dir))
	}
	if f := strings.Fields(out); len(f) != 2 || f[0] != "true" || f[1] != "sha1" {
		return fmt.Errorf("%s is no bare repository of SHA-1 objects (git init --bare makes one)", dir)
	}
	if err := configure(ctx, dir, proc); err != nil {
		return err
	}
	return clearLeftovers(dir)
}

// clearLeftovers removes what a crash left of a pack that never became visible.
func clearLeftovers(dir string) error {
	left, err := filepath.Glob(filepath.Join(objects.OwnDir(dir), git.TmpPrefix+"*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: remove %s: %w", desired.ErrUnavailable, name, err)
		}
	}
	for _, d := range []string{objects.OwnDir(dir), filepath.Join(dir, "objects", "pack")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("%w: make %s: %w", desired.ErrUnavailable, d, err)
		}
	}
	return nil
}

// bornFile exists once the branch has had a commit. Without it an absent branch means a fresh
// repository; with it, a damaged one.
func bornFile(dir string) string { return filepath.Join(objects.OwnDir(dir), "born") }

func markBorn(dir string) error {
	name := bornFile(dir)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return git.WriteSynced(name, []byte("the branch had a commit\n"))
}
