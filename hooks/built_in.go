package hooks

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// Two management drivers of the older VNFM do, inside of it, what Jibe does itself. Files of
// their names are recognised by what they say, never by the name alone: one that somebody
// has changed is run like any other, or refused.

// updatesContainers are the digests ([textDigest]) of the older VNFM's container update.
var updatesContainers = []string{
	"0c1736b3b9f6711d07017a65d45297723c2c76a379dbe075de601e4f5c14a0c2", // of its second API
	"25aac06d6e29914720530071221f533545c211c901c51f66633aabe969d6cbef", // of its first API
}

// olderVNFM is the Python package of the older VNFM. Scripts that import it need its
// modules on this machine, and mostly its services, too.
const olderVNFM = "tacker"

// updatesContainer says whether the file is the older VNFM's container update, which Jibe
// does itself and never runs.
func updatesContainer(pkg *vnfd.Package, file string) bool {
	if ok, _ := path.Match("container_update_mgmt*.py", path.Base(file)); !ok || pkg == nil || pkg.Files == nil {
		return false
	}
	f, err := pkg.Files.Open(path.Clean(file))
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScript+1))
	return err == nil && slices.Contains(updatesContainers, textDigest(string(text)))
}

// textDigest is the SHA-256 of a Python file without its empty lines, its lines that are a
// comment, and blanks at the ends of lines: what is left says what it does.
func textDigest(text string) string {
	sum := sha256.New()
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\r\n")
		if start := strings.TrimLeft(line, " \t"); start == "" || start[0] == '#' {
			continue
		}
		_, _ = io.WriteString(sum, line+"\n")
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// ClusterDriver says whether Jibe's own driver of Kubernetes clusters takes the place of the
// package's file: a kubernetes_mgmt*.py that imports the older VNFM's modules, without which
// it can't be run, where it takes the instance's parameter that both read.
func ClusterDriver(pkg *vnfd.Package, file string, given map[string]any) bool {
	if ok, _ := path.Match("kubernetes_mgmt*.py", path.Base(file)); !ok || pkg == nil || pkg.Files == nil || params.Accepts(given) != nil {
		return false
	}
	look, err := lookAt(pkg.Files, path.Clean(file))
	return err == nil && slices.Contains(look.imports, olderVNFM)
}

// beside says whether the module is one of the package's, in the directory of the file.
func beside(files fs.FS, file, module string) bool {
	for _, name := range []string{module + ".py", module} {
		if _, err := fs.Stat(files, path.Join(path.Dir(file), name)); err == nil {
			return true
		}
	}
	return false
}
