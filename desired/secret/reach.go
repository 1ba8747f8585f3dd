package secret

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/internal/kubeconfig"
)

const (
	// EnvPrefix begins the names of the environment variables that references may always
	// name.
	EnvPrefix = "JIBE_SECRET_"
	// DefaultDir is the directory beside the key whose files references may name, unless
	// others are given.
	DefaultDir = "secrets"
)

// Reach bounds what references in git may make the process read. People who may push aren't
// people who may log in to the machine: without bounds they could have any file or variable of
// the process sent to an endpoint of their own.
type Reach struct {
	// Dirs hold the files that "file:" may name; none is [DefaultDir] beside the key.
	Dirs []string
	// Env are the variables that "env:" may name beside those that begin with [EnvPrefix].
	Env []string
	// KubeconfigExec lets kubeconfigs name commands, files and proxies; see package
	// internal/kubeconfig.
	KubeconfigExec bool
	// ServiceAccount is the directory in which Kubernetes gives a pod its token and the
	// cluster's CA: VIMs may say inCluster then. "" forbids that.
	ServiceAccount string
	// Namespaces are those in which that account has rights; none means all.
	Namespaces []string
	// SkipVerification lets the vimConnectionInfo of a request switch off the check of its
	// VIM's certificate.
	SkipVerification bool
}

// ForbiddenError is returned for a reference to something that the installation doesn't let
// references name, and for a kubeconfig that it doesn't use. Trying again is of no use: git,
// or the flags of the process, have to change.
type ForbiddenError struct {
	// Field is what of a VIM's file is at fault, "" where that is all of what was asked for.
	Field string
	// Reason says what is wrong, Remedy what to do about it.
	Reason, Remedy string
}

func (e *ForbiddenError) Error() string {
	if e.Field == "" {
		return e.Reason + " (" + e.Remedy + ")"
	}
	return e.Field + ": " + e.Reason + " (" + e.Remedy + ")"
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// With returns a keeper of the same key whose references reach that far. A directory that
// isn't there, or that holds the key, is an error.
func (k *Keeper) With(r Reach) (*Keeper, error) {
	dirs := make([]string, len(r.Dirs))
	for i, dir := range r.Dirs {
		if dir == "" {
			return nil, errors.New("directory of secrets (--secret-dir) has no name")
		}
		dir, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("directory of secrets (--secret-dir) %s: %w", dir, err)
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return nil, fmt.Errorf("directory of secrets (--secret-dir) %s: %w", dir, err)
		}
		if info, err := os.Stat(real); err != nil || !info.IsDir() {
			return nil, errors.Join(fmt.Errorf("directory of secrets (--secret-dir) %s isn't a directory", dir), err)
		}
		own, err := filepath.EvalSymlinks(k.dir)
		if err != nil {
			return nil, fmt.Errorf("directory of the secret key: %w", err)
		}
		if _, ok := within(real, own); ok {
			return nil, fmt.Errorf("directory of secrets (--secret-dir) %s holds Jibe's own data directory %s, whose keys nobody may refer to: give one that holds nothing but secrets of VIMs and packages", dir, k.dir)
		}
		dirs[i] = dir
	}
	for _, name := range r.Env {
		if !envName.MatchString(name) {
			return nil, fmt.Errorf("environment variable of a secret (--secret-env) %q is no name of a variable", name)
		}
	}
	if len(dirs) == 0 {
		dirs = []string{filepath.Join(k.dir, DefaultDir)}
	}
	return &Keeper{keys: k.keys, dir: k.dir, reach: Reach{Dirs: dirs, Env: slices.Clone(r.Env), KubeconfigExec: r.KubeconfigExec, SkipVerification: r.SkipVerification, ServiceAccount: r.ServiceAccount, Namespaces: slices.Clone(r.Namespaces)}}, nil
}

// PermitConnection says whether the connection may be used as it is; it reads nothing. The
// error is a [*ForbiddenError] that names the field.
func (k *Keeper) PermitConnection(c desired.VIMConnection) error {
	skip, err := c.SkipsVerification()
	switch {
	case err != nil:
		return &ForbiddenError{Field: "interfaceInfo." + desired.SkipVerification, Reason: err.Error(), Remedy: "give true or false, or leave it out"}
	case skip && !k.reach.SkipVerification:
		return &ForbiddenError{
			Field:  "interfaceInfo." + desired.SkipVerification,
			Reason: "the check of a VIM's certificate can't be switched off by a request here",
			Remedy: "give the CA's certificate in interfaceInfo.ssl_ca_cert, or start jibe serve with --allow-skip-certificate-verification",
		}
	}
	return nil
}

// Dirs are the directories whose files references may name.
func (k *Keeper) Dirs() []string { return slices.Clone(k.reach.Dirs) }

// Permit says by its text alone whether the reference may be resolved: it reads nothing. The
// error is a [*ForbiddenError], or [ErrNotRef].
func (k *Keeper) Permit(ref string) error {
	if !IsRef(ref) {
		return ErrNotRef
	}
	if name, ok := strings.CutPrefix(ref, desired.RefEnv); ok {
		return k.permitEnv(name)
	}
	if path, ok := strings.CutPrefix(ref, desired.RefFile); ok {
		if len(k.rooted(path)) == 0 {
			return k.outside(path)
		}
	}
	return nil
}

// SameSource reports whether two references name the same variable, or the same file, whatever links lead to it.
func SameSource(a, b string) bool {
	if a == b {
		return true
	}
	x, isFile := strings.CutPrefix(a, desired.RefFile)
	y, both := strings.CutPrefix(b, desired.RefFile)
	if !isFile || !both {
		return false
	}
	if filepath.Clean(x) == filepath.Clean(y) {
		return true
	}
	one, err := os.Stat(x)
	if err != nil {
		return false // what isn't there is sent nowhere
	}
	other, err := os.Stat(y)
	return err == nil && os.SameFile(one, other)
}

func (k *Keeper) permitEnv(name string) error {
	if len(name) > len(EnvPrefix) && strings.HasPrefix(name, EnvPrefix) || slices.Contains(k.reach.Env, name) {
		return nil
	}
	return &ForbiddenError{
		Reason: fmt.Sprintf("the environment variable %s isn't one that references may name", name),
		Remedy: fmt.Sprintf("call it %s…, or start jibe serve with --secret-env %s", EnvPrefix, name),
	}
}

// outside is the refusal of a file that is in no directory of secrets.
func (k *Keeper) outside(path string) error {
	remedy := "move it into one of them"
	if len(k.reach.Dirs) == 1 {
		remedy = "move it there"
	}
	dir := filepath.Dir(filepath.Clean(path))
	if _, own := within(k.dir, filepath.Clean(path)); own {
		remedy = "what else is in Jibe's data directory is its own: put the secret into a file of " + strings.Join(k.reach.Dirs, " or ")
	} else if _, own := within(dir, k.dir); !own {
		if _, below := within(k.dir, dir); !below {
			remedy += ", or start jibe serve with --secret-dir " + dir + ", if that holds nothing but such secrets"
		}
	}
	return &ForbiddenError{
		Reason: fmt.Sprintf("the file %s is outside of what references may name, %s", path, strings.Join(k.reach.Dirs, ", ")),
		Remedy: remedy,
	}
}

// within is the path relative to the directory, and whether it is in it or the directory
// itself, by the names alone.
func within(dir, path string) (string, bool) {
	rel, err := filepath.Rel(dir, path)
	return rel, err == nil && filepath.IsLocal(rel)
}

// place is a file as a directory of secrets has it.
type place struct{ dir, name string }

// rooted are the places where a file may be read, by the names alone.
func (k *Keeper) rooted(path string) (places []place) {
	for _, dir := range k.reach.Dirs {
		if rel, ok := within(dir, filepath.Clean(path)); ok {
			places = append(places, place{dir, rel})
		}
	}
	return places
}

// resolveFile reads a file that is in a directory of secrets, whatever symbolic links say.
func (k *Keeper) resolveFile(path string) (string, error) {
	err := k.outside(path)
	for _, at := range k.rooted(path) {
		var text string
		if text, err = at.read(path); err == nil {
			return text, nil
		}
		var out *ForbiddenError
		if !errors.As(err, &out) {
			return "", err
		}
	}
	return "", err
}

func (p place) read(path string) (string, error) {
	root, err := os.OpenRoot(p.dir)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	}
	defer root.Close()
	f, err := root.OpenFile(p.name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // else a FIFO would block
	var said syscall.Errno
	switch {
	case err == nil:
	case errors.As(err, &said), errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%w: %s: %w", ErrMissing, path, err)
	default: // the root's own word, and not the system's
		return "", &ForbiddenError{
			Reason: fmt.Sprintf("the file %s leads out of %s by a symbolic link", path, p.dir),
			Remedy: "put the file itself there; a link must be relative, and stay within the directory",
		}
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(fmt.Errorf("%w: %s isn't a regular file", ErrMissing, path), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrMissing, err)
	case len(data) > maxSecret:
		return "", fmt.Errorf("%w: %s has more than %d bytes", ErrMissing, path, maxSecret)
	}
	s := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if s == "" {
		return "", fmt.Errorf("%w: %s is empty", ErrMissing, path)
	}
	return s, nil
}

// harmless refuses a kubeconfig that would make the process do more than connect to a cluster.
// A file that is no kubeconfig passes: the driver reports it.
func (k *Keeper) harmless(text []byte) error {
	if k.reach.KubeconfigExec {
		return nil
	}
	var unsafe *kubeconfig.UnsafeError
	if _, err := kubeconfig.Load(text); errors.As(err, &unsafe) {
		return &ForbiddenError{Reason: unsafe.Error(), Remedy: kubeconfig.Remedy + ", or start jibe serve with --allow-kubeconfig-exec"}
	}
	return nil
}
