package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/internal/datadir"
)

// Given is what others keep for a data directory: files of the host, which a cluster mounts
// into a pod. All may be "".
type Given struct {
	// Seed is a directory with the first content of a new desired repository.
	Seed string
	// Tokens is the token file, in place of the one in the data directory.
	Tokens string
	// Identity is a file with the key that a data directory begins with which has none.
	Identity string
}

// tokensFile is the file of the API's static tokens.
func (s *host) tokensFile() string {
	if s.Given.Tokens != "" {
		return s.Given.Tokens
	}
	return datadir.TokensFile(s.data.Path)
}

// openKeeper opens the key; a first start takes the one that it is given.
func (s *host) openKeeper() (*secret.Keeper, error) {
	if s.Given.Identity != "" {
		if err := beginIdentity(s.Given.Identity, filepath.Join(s.data.Path, secret.IdentityFile)); err != nil {
			return nil, fmt.Errorf("key of the data directory (--identity): %w", err)
		}
	}
	return s.data.Keeper(s.Key, s.Reach)
}

// beginIdentity copies a key to where there is none. What is there already stays: it may have
// been changed since (jibe secret rotate).
func beginIdentity(from, to string) error {
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(key)) == 0 {
		return fmt.Errorf("%s is empty", from)
	}
	tmp, err := os.CreateTemp(filepath.Dir(to), ".identity-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(key)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	return os.Link(tmp.Name(), to)
}

// checkGiven refuses what can't be obeyed beside other options.
func (s *host) checkGiven() error {
	if s.Given.Seed != "" && s.Remote != "" {
		return errors.New("--seed is for a desired repository in the data directory: push the files to the forge that --remote names")
	}
	return nil
}

// seed makes the first commit of a new desired repository.
func (s *state) seed(ctx context.Context) error {
	if !s.first || s.Remote != "" {
		return nil
	}
	files := map[string][]byte{desired.RepositoriesFile: []byte(datadir.FirstRepositories)}
	if s.Given.Seed != "" {
		if err := readSeed(files, s.Given.Seed, ""); err != nil {
			return fmt.Errorf("first content of the desired repository (--seed %s): %w", s.Given.Seed, err)
		}
	}
	if err := s.repo.Seed(ctx, files, "Say where packages come from"); err != nil {
		return fmt.Errorf("desired repository: %w", err)
	}
	return nil
}

// maxSeed bounds one file of the first content, bytes.
const maxSeed = 1 << 20

// readSeed adds the files below a directory. Names that begin with two dots are Kubernetes' own
// in the directories that it mounts.
func readSeed(files map[string][]byte, dir, below string) error {
	items, err := os.ReadDir(filepath.Join(dir, below))
	if err != nil {
		return err
	}
	for _, item := range items {
		name := path.Join(below, item.Name())
		if strings.HasPrefix(item.Name(), "..") {
			continue
		}
		info, err := os.Stat(filepath.Join(dir, name)) // what is mounted is a link
		switch {
		case err != nil:
			return err
		case info.IsDir() && below == "":
			if err := readSeed(files, dir, name); err != nil {
				return err
			}
			continue
		case !info.Mode().IsRegular() || info.Size() > maxSeed:
			return fmt.Errorf("%s isn't a file of at most %d bytes, nor a directory of such files", name, maxSeed)
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = checkSeed(name, text)
		}
		if err != nil {
			return err
		}
		files[name] = text
	}
	return nil
}

// checkSeed refuses a file that would not be obeyed, or that is no setting: instances are
// pushed, so that the rules are held against them.
func checkSeed(name string, text []byte) (err error) {
	dir, base := path.Split(name)
	switch {
	case dir == "vims/" && path.Ext(base) == ".yaml":
		_, err = desired.ParseVIM(name, text)
	case dir == "projects/" && path.Ext(base) == ".yaml":
		_, err = desired.ParseProject(name, text)
	case name == desired.RepositoriesFile:
		_, err = desired.ParseRepositories(name, text)
	case name == desired.PeersFile:
		_, err = desired.ParsePeers(name, text)
	case name == desired.GrantingFile:
		_, err = desired.ParseGranting(name, text)
	default:
		err = fmt.Errorf("%s can't be among them: give vims/*.yaml, projects/*.yaml, %s, %s and %s, and push all else",
			name, desired.RepositoriesFile, desired.PeersFile, desired.GrantingFile)
	}
	return err
}
