package kubecluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the driver's own script
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/hooks/ssh"
)

// ownScript makes a machine a node. The example packages hold it, too, for those who want it
// otherwise.
//
//go:embed install_k8s_cluster.sh
var ownScript []byte

// maxArtifacts bounds all artifacts of a package together, in bytes.
const maxArtifacts = 16 << 30

// Settings of the script that tell of artifacts.
const (
	settingArtifacts = "JIBE_K8S_ARTIFACTS"
	settingDigest    = "JIBE_K8S_ARTIFACTS_DIGEST"
)

// readFiles reads what the parameters name in the package, so that what is missing is told
// before anything is done.
func (d *driver) readFiles() error {
	d.scriptText = ownScript
	if d.Script != "" {
		var err error
		if d.scriptText, err = d.packageFile(d.Script); err != nil {
			return err
		}
		if !bytes.Contains(d.scriptText, []byte("JIBE_K8S_ACTION")) {
			// It was written for an older driver, whose arguments it wants: run as it is, it
			// would do nothing of what it is to do.
			d.say("the package's %s doesn't read JIBE_K8S_ACTION, so it was written for another driver: this one's own script takes its place", d.Script)
			d.Script, d.scriptText = "", ownScript
		}
	}
	for _, name := range []string{d.CNI, d.RepositoryKey} {
		if name == "" || strings.Contains(name, "://") {
			continue
		}
		if _, err := d.packageFile(name); err != nil {
			return err
		}
	}
	if d.Artifacts == "" {
		return nil
	}
	root, err := d.inPackage()
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Stat(filepath.FromSlash(d.Artifacts)); err != nil {
		return d.wrongArtifacts(err)
	}
	return nil
}

func (d *driver) wrongArtifacts(err error) error {
	return fmt.Errorf("params.%s.artifacts: the package's folder %s: %w", params.Name, d.Artifacts, err)
}

// scriptName is what people know the script by.
func (d *driver) scriptName() string {
	if d.Script == "" {
		return "install_k8s_cluster.sh"
	}
	return d.Script
}

// inPackage opens a file of the package, and none outside of it. The caller closes both.
func (d *driver) inPackage() (*os.Root, error) {
	dir, err := d.packageDir()
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// packageFile reads a file of the package, and none outside of it.
func (d *driver) packageFile(name string) ([]byte, error) {
	root, err := d.inPackage()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.FromSlash(path.Clean(name)))
	if err != nil {
		return nil, fmt.Errorf("the package's file %s can't be read: correct its path in %s: %w", name, params.Name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	if err == nil && len(data) > maxScript {
		err = fmt.Errorf("it is longer than %d bytes", maxScript)
	}
	if err != nil {
		return nil, fmt.Errorf("the package's file %s: %w", name, err)
	}
	return data, nil
}

// artifact is one file that machines get.
type artifact struct {
	name string // below the folder
	sum  string // SHA-256, in hex
}

// listArtifacts finds what the package has for its machines.
func (d *driver) listArtifacts() error {
	root, err := d.inPackage()
	if err != nil {
		return err
	}
	defer root.Close()
	var size int64
	whole := sha256.New()
	err = fs.WalkDir(root.FS(), d.Artifacts, func(at string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		f, err := root.Open(filepath.FromSlash(at))
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if size += n; err == nil && size > maxArtifacts {
			err = fmt.Errorf("they are longer than %d bytes", maxArtifacts)
		}
		one := artifact{name: strings.TrimPrefix(at, d.Artifacts+"/"), sum: hex.EncodeToString(sum.Sum(nil))}
		if strings.ContainsAny(one.name, " \t\n\\") {
			err = errors.Join(err, fmt.Errorf("the file %q must have a name without spaces and backslashes", one.name))
		}
		d.artifacts = append(d.artifacts, one)
		fmt.Fprintf(whole, "%s  %s\n", one.sum, one.name)
		return err
	})
	if err == nil && len(d.artifacts) == 0 {
		err = errors.New("there is no file")
	}
	if err != nil {
		return d.wrongArtifacts(err)
	}
	d.artifactsDigest = hex.EncodeToString(whole.Sum(nil))
	return nil
}

// artifactsWanted tells in a line each whether the machine has all of them installed, or which
// files it lacks, having made the folder $1 for them, which must be the user's own; $2 is their
// digest, and the names and sums come as sha256sum prints them.
const artifactsWanted = `
[ "$(cat /var/lib/jibe-kubernetes/artifacts 2>/dev/null)" != "$2" ] || { echo installed; exit 0; }
mkdir -m 700 "$1" 2>/dev/null || { [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ]; } || { echo "$1 is somebody else's" >&2; exit 1; }
cd "$1" && cat >.sums && mkdir -p -- $(sed -n 's#^[0-9a-f]*  \(.*\)/[^/]*$#\1#p' .sums | sort -u)
sha256sum --quiet -c .sums 2>/dev/null | sed -n 's/^\(.*\): FAILED.*/lacks \1/p'`

// sendArtifacts brings them to a machine that hasn't installed them, and returns the folder
// there, "" for a machine that has. What an earlier connection has brought isn't sent again.
func (d *driver) sendArtifacts(ctx context.Context, conn *ssh.Conn, m machine) (string, error) {
	to := "/var/tmp/jibe-artifacts-" + d.artifactsDigest[:16]
	var sums strings.Builder
	for _, a := range d.artifacts {
		fmt.Fprintf(&sums, "%s  %s\n", a.sum, a.name)
	}
	out, err := conn.Output(ctx, ssh.Command{Cmd: ssh.Quote("sh", "-c", artifactsWanted, "sh", to, d.artifactsDigest), Stdin: strings.NewReader(sums.String())}, maxConf)
	if err != nil {
		return "", fmt.Errorf("%s: look for the artifacts of the package: %w", m, err)
	}
	lacks := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "installed" {
			return "", nil
		}
		if name, ok := strings.CutPrefix(line, "lacks "); ok {
			lacks[name] = true
		}
	}
	root, err := d.inPackage()
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, a := range d.artifacts {
		if !lacks[a.name] {
			continue
		}
		if err := d.sendFile(ctx, conn, root, a.name, path.Join(to, a.name)); err != nil {
			return "", fmt.Errorf("%s: %w", m, err)
		}
	}
	d.say("%s: has %s of the package, %d of them sent now", m, counted(len(d.artifacts), "artifact"), len(lacks))
	return to, nil
}

func (d *driver) sendFile(ctx context.Context, conn *ssh.Conn, root *os.Root, name, to string) error {
	f, err := root.Open(filepath.FromSlash(path.Join(d.Artifacts, name)))
	if err != nil {
		return err
	}
	defer f.Close()
	return conn.Upload(ctx, f, to, 0o600)
}

// lacking adds to the settings of an action that makes a machine a node where it gets what it
// lacks.
func (d *driver) lacking(env map[string]string) error {
	if d.Artifacts != "" {
		d.listed.Do(func() { d.artifactsErr = d.listArtifacts() })
		if d.artifactsErr != nil {
			return d.artifactsErr
		}
	}
	for name, value := range map[string]string{
		settingDigest: d.artifactsDigest, "JIBE_K8S_REPOSITORY": d.Repository, "JIBE_K8S_REPOSITORY_KEY": d.RepositoryKey,
		"JIBE_K8S_VERSION": d.Version, "JIBE_K8S_IGNORE_PREFLIGHT": d.IgnorePreflight,
	} {
		if value != "" {
			env[name] = value
		}
	}
	return nil
}
