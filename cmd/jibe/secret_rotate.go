package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/git"
)

// keyFlags are those that say what keeps the key, with names that begin with prefix.
func keyFlags(f *pflag.FlagSet, prefix string, o *secret.LockOptions) {
	f.StringVar(&o.KMS, prefix+"-kms", "", "key of a transit engine of HashiCorp Vault or OpenBao that keeps the key of the secrets, as https://vault.example:8200/transit/jibe (default: its file is in clear)")
	f.StringVar(&o.TokenFile, prefix+"-kms-token-file", "", "file with the token for it; it is read for each question")
	f.StringVar(&o.CA, prefix+"-kms-ca", "", "PEM file of the authorities of its certificate (default: the system's)")
	f.StringVar(&o.Plugin, prefix+"-plugin", "", "file with an identity of an age plugin (AGE-PLUGIN-…) that keeps the key of the secrets; the program age-plugin-… is found in PATH")
}

// rotator is `jibe secret rotate`.
type rotator struct {
	data, repository, branch string
	from, to                 secret.LockOptions
	out                      io.Writer
	// adopt has values that are for another place be for where they stand.
	adopt bool
}

func newRotate() *cobra.Command {
	r := &rotator{}
	cmd := &cobra.Command{
		Use:   "rotate --data DIR",
		Short: "Make a new key and encrypt all secrets of the desired repository for it",
		Long: "Make a new key for the installation, and encrypt each \"age:\" value at the head of the desired repository anew,\n" +
			"in one commit that is pushed as any other. Values of earlier versions, which don't say what they are for, are for where\n" +
			"they stand from then on. It is run on the host; the server may run or not, and takes the key up\n" +
			"by itself. Run it, too, after recipients.txt in the data directory has changed, and to have a KMS or a plugin keep\n" +
			"the key from now on (--key-…), or no longer (--former-key-… alone).\n\n" +
			"It may be interrupted and repeated at any point: a rotation that was begun is finished first. Former keys stay in\n" +
			"the key's file, as commits of the past and records may need them. Make a copy of that file afterwards.",
		Example: "  jibe secret rotate --data /var/lib/jibe",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.out = cmd.OutOrStdout()
			return r.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&r.data, "data", os.Getenv("JIBE_DATA"), "data directory (or $JIBE_DATA)")
	f.StringVar(&r.repository, "repository", "", "desired repository, where it is on a forge: a URL to which you may push (default: that of the data directory)")
	f.StringVar(&r.branch, "branch", "main", "branch of the desired repository")
	f.BoolVar(&r.adopt, "adopt", false, "have each value be for where it stands at head, also one that was encrypted for another place: an instance whose project has changed around it. Look first who put it there")
	keyFlags(f, "key", &r.to)
	keyFlags(f, "former-key", &r.from)
	return cmd
}

// pushes is how often the commit is made anew where another one was faster.
const pushes = 5

func (r *rotator) run(ctx context.Context) (err error) {
	if r.data == "" {
		return errors.New("no data directory: give one with --data")
	}
	from, to := r.from, r.to
	if from == (secret.LockOptions{}) {
		from = to
	}
	unlock, err := from.Lock()
	if err != nil {
		return err
	}
	lock, err := to.Lock()
	if err != nil {
		return err
	}
	if r.repository == "" {
		if r.repository, err = r.local(ctx); err != nil {
			return err
		}
	}
	rotation, err := secret.BeginRotation(r.data, unlock, lock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rotation.Close()) }()
	dir, err := os.MkdirTemp("", "jibe-rotate-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	clone := git.Runner{Clone: dir, Config: []string{"core.autocrlf=false"}}
	if _, err := clone.Run(ctx, "clone", "--quiet", "--single-branch", "--branch", r.branch, "--", r.repository, "."); err != nil {
		return fmt.Errorf("clone the desired repository: %w", err)
	}
	// Nothing is begun that can't be finished.
	places, err := r.places(ctx, dir, clone)
	if err != nil {
		return err
	}
	outdated, err := r.each(ctx, dir, clone, func(_ string, text []byte) (int, error) { return rotation.Outdated(text, places) })
	if err != nil {
		return err
	}
	if outdated > 0 && rotation.Begun() {
		fmt.Fprintf(r.out, "finishing a rotation that was begun: values that are still for another key or other recipients: %d\n", outdated)
		err = rotation.Keep()
	} else {
		err = rotation.NewKey()
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(r.out, "the key is %s\n", rotation.Recipient())
	for range pushes {
		if _, err = clone.Run(ctx, "fetch", "--quiet", "origin", r.branch); err != nil {
			return fmt.Errorf("fetch the desired repository: %w", err)
		}
		if _, err = clone.Run(ctx, "reset", "--quiet", "--hard", "FETCH_HEAD"); err != nil {
			return err
		}
		if places, err = r.places(ctx, dir, clone); err != nil {
			return err
		}
		done, err := r.each(ctx, dir, clone, func(path string, text []byte) (int, error) {
			next, n, err := rotation.Encrypt(text, places)
			if err != nil || n == 0 {
				return n, err
			}
			return n, os.WriteFile(path, next, 0o600)
		})
		if err != nil {
			return err
		}
		if done == 0 {
			fmt.Fprintf(r.out, "each value at the head of %s is encrypted for it\n", r.branch)
			fmt.Fprintf(r.out, "make a copy of %s\n", filepath.Join(r.data, secret.IdentityFile))
			return nil
		}
		if _, err := clone.Run(ctx, "-c", "user.name=jibe secret rotate", "-c", "user.email=jibe@localhost", "-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null",
			"commit", "--quiet", "--all", "--message", fmt.Sprintf("Encrypt secrets for the installation's new key (%d)", done)); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
		said, failed := clone.Run(ctx, "push", "--quiet", "origin", "refs/heads/"+r.branch+":refs/heads/"+r.branch)
		if failed == nil {
			fmt.Fprintf(r.out, "values encrypted anew: %d\n", done)
			continue // and a look whether that was all
		}
		fmt.Fprint(r.out, said)
		head, err := clone.Run(ctx, "ls-remote", "origin", "refs/heads/"+r.branch)
		if err != nil {
			return fmt.Errorf("push: %w", errors.Join(failed, err))
		}
		base, err := clone.Run(ctx, "rev-parse", "HEAD~1")
		if err != nil {
			return err
		}
		if strings.HasPrefix(head, strings.TrimSpace(base)) { // nobody was faster: it was refused
			return fmt.Errorf("the commit was refused; the new key is in use already, so run the command again when this is mended: %w", failed)
		}
	}
	return fmt.Errorf("others pushed faster, %d times: run the command again, it goes on where it is", pushes)
}

// local is the repository of the data directory, unless that is a mirror.
func (r *rotator) local(ctx context.Context) (string, error) {
	dir, err := filepath.Abs(datadir.Desired(r.data))
	if err != nil {
		return "", err
	}
	mirrored, err := git.Runner{Dir: dir}.Run(ctx, "for-each-ref", "--count=1", "refs/jibe/remote/")
	if err != nil {
		return "", fmt.Errorf("desired repository: %w", err)
	}
	if strings.TrimSpace(mirrored) != "" {
		return "", fmt.Errorf("%s is a mirror: give the desired repository on its forge with --repository", dir)
	}
	return dir, nil
}

// places finds out what the values of the clone are for: those of earlier versions don't say.
func (r *rotator) places(ctx context.Context, dir string, clone git.Runner) (*secret.Places, error) {
	texts := map[string][]byte{}
	if _, err := r.each(ctx, dir, clone, func(file string, text []byte) (int, error) {
		name, err := filepath.Rel(dir, file)
		if name = filepath.ToSlash(name); err == nil && desired.IsSettings(name) {
			texts[name] = text
		}
		return 0, err
	}); err != nil {
		return nil, err
	}
	settings, err := desired.SettingsFrom(func(name string) ([]byte, error) { return texts[name], nil }, slices.Collect(maps.Keys(texts)))
	if err != nil {
		return nil, fmt.Errorf("settings of the desired repository: %w", err)
	}
	places := secret.NewPlaces(settings)
	places.Adopt = r.adopt
	_, err = r.each(ctx, dir, clone, func(file string, text []byte) (int, error) {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return 0, err
		}
		return 0, places.Add(filepath.ToSlash(name), text)
	})
	return places, err
}

// each calls fn for each file of the clone and adds up what it returns. An error names the file.
func (r *rotator) each(ctx context.Context, dir string, clone git.Runner, fn func(path string, text []byte) (int, error)) (sum int, _ error) {
	list, err := clone.Run(ctx, "ls-files", "-z")
	if err != nil {
		return 0, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	for _, name := range slices.DeleteFunc(strings.Split(list, "\x00"), func(s string) bool { return s == "" }) {
		info, err := root.Lstat(name)
		if err != nil {
			return 0, err
		}
		if !info.Mode().IsRegular() {
			continue // links and the like hold no values
		}
		text, err := root.ReadFile(name)
		if err != nil {
			return 0, err
		}
		n, err := fn(filepath.Join(dir, name), text)
		if errors.As(err, new(*secret.MisplacedError)) {
			return 0, fmt.Errorf("%s: %w: encrypt the secret itself for there (jibe secret encrypt); or, if the instance's project has changed around it: jibe secret rotate --adopt", name, err)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}
