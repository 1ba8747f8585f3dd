package datadir

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// installationFile is the name of the file with the installation's id.
const installationFile = "installation"

// installationID is what an id may be: it stands in labels, tags and the names of field managers.
var installationID = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)

// Installation is the id of this installation: of this data directory and its copies. What Jibe
// makes at a VIM carries it, so that another installation with the same desired repository
// leaves it alone. A first start makes it of the seed, which should be derived from the
// encryption key: an installation that is set up anew with its key alone is still the same.
// From then on the file is believed, whatever becomes of the key; an id of one's own may be
// written into it before the first start.
func (d *Dir) Installation(seed []byte) (string, error) {
	file := d.path(installationFile)
	id, err := InstallationOf(d.Path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	sum := sha256.Sum256(seed)
	id = hex.EncodeToString(sum[:8])
	if err := writeDurably(file, id+"\n"); err != nil {
		return "", fmt.Errorf("id of the installation: %w", err)
	}
	return id, nil
}

// InstallationGiven is the id of this installation where others with other data directories are
// the same one: a directory that has none yet takes theirs. One that has another keeps it.
func (d *Dir) InstallationGiven(id string) (string, error) {
	own, err := InstallationOf(d.Path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return own, err
	}
	if !installationID.MatchString(id) {
		return "", fmt.Errorf("%.60q can't be the id of an installation", id)
	}
	if err := writeDurably(d.path(installationFile), id+"\n"); err != nil {
		return "", fmt.Errorf("id of the installation: %w", err)
	}
	return id, nil
}

// InstallationOf reads the id in a data directory; [fs.ErrNotExist] where it has none yet.
func InstallationOf(dir string) (string, error) {
	file := filepath.Join(dir, installationFile)
	text, err := os.ReadFile(file)
	if err == nil {
		id := strings.TrimSpace(string(text))
		if !installationID.MatchString(id) {
			return "", fmt.Errorf("%s holds %.60q, which can't be the id of an installation: put the copy back that you have, "+
				"or the id that is in the labels vnf.jibe.dev/installation of what Jibe has made (small letters, digits and '-', at most 40)", file, id)
		}
		return id, nil
	}
	return "", fmt.Errorf("id of the installation: %w", err)
}

// temporary is how the name of a file begins until all of it is written.
func temporary(name string) string { return ".new-" + name + "-" }

// writeDurably writes the file so that it is there as a whole or not at all, whatever happens.
func writeDurably(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), temporary(filepath.Base(file)))
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
