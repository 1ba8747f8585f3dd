package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"

	"github.com/jibe-vnfm/jibe/packaging/internal/rootfs"
)

// contents are the files of a release for one architecture, by where they are in the archive.
type contents struct {
	files   map[string][]byte
	scripts map[string]string // of the package of Debian, by their names: the files they are in
}

func (m *maker) files(program, thirdParty, bill []byte) (contents, error) {
	c := contents{files: maps.Clone(m.docs), scripts: map[string]string{}}
	c.files["jibe"] = program
	c.files["THIRD_PARTY_LICENSES"] = thirdParty
	c.files["sbom.cdx.json"] = bill
	for name, from := range map[string]string{
		"LICENSE": "LICENSE", "CHANGELOG.md": "CHANGELOG.md",
		"systemd/jibe.service": "packaging/systemd/jibe.service", "systemd/jibe.sysusers": "packaging/systemd/jibe.sysusers",
		"systemd/jibe.tmpfiles": "packaging/systemd/jibe.tmpfiles", "systemd/jibe.default": "packaging/systemd/jibe.default",
	} {
		data, err := os.ReadFile(filepath.Join(m.release.Root, from))
		if err != nil {
			return c, err
		}
		c.files[name] = data
	}
	for _, name := range []string{"postinst", "prerm", "postrm"} {
		c.scripts[name] = filepath.Join(m.release.Root, "packaging", "deb", name)
	}
	return c, nil
}

// archive is a tar.gz of all below one folder.
func (c contents) archive(folder string, at time.Time) ([]byte, error) {
	t := rootfs.Tree{}
	for name, data := range c.files {
		mode := int64(0o644)
		if name == "jibe" {
			mode = 0o755
		}
		t.Add(folder+"/"+name, mode, data)
	}
	return packed(t, at)
}

// packed is a tree as a tar.gz.
func packed(t rootfs.Tree, at time.Time) ([]byte, error) {
	var tarred bytes.Buffer
	if err := t.Write(&tarred, at); err != nil {
		return nil, err
	}
	return zipped(tarred.Bytes())
}

// zipped has neither a name nor a time in it.
func zipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// installed says where a file of the archive is on a system, "" for those that a package hasn't.
func installed(name string) (to string, compress bool) {
	base := path.Base(name)
	switch {
	case name == "jibe":
		return "/usr/bin/jibe", false
	case name == "LICENSE":
		return "/usr/share/doc/jibe/copyright", false
	case name == "CHANGELOG.md":
		return "/usr/share/doc/jibe/changelog.gz", true
	case name == "THIRD_PARTY_LICENSES":
		return "/usr/share/doc/jibe/THIRD_PARTY_LICENSES.gz", true
	case name == "sbom.cdx.json":
		return "/usr/share/doc/jibe/sbom.cdx.json", false
	case strings.HasPrefix(name, "man/"):
		return "/usr/share/man/man1/" + base + ".gz", true
	case base == "jibe.bash":
		return "/usr/share/bash-completion/completions/jibe", false
	case base == "_jibe":
		return "/usr/share/zsh/vendor-completions/_jibe", false
	case base == "jibe.fish":
		return "/usr/share/fish/vendor_completions.d/jibe.fish", false
	case base == "jibe.service":
		return "/lib/systemd/system/jibe.service", false
	case base == "jibe.sysusers":
		return "/usr/lib/sysusers.d/jibe.conf", false
	case base == "jibe.tmpfiles":
		return "/usr/lib/tmpfiles.d/jibe.conf", false
	case base == "jibe.default":
		return "/etc/default/jibe", false
	}
	return "", false
}

// debian is the package of Debian. nfpm reads files from a disk, so they are put there.
func (c contents) debian(version, arch string, at time.Time) ([]byte, error) {
	dir, err := os.MkdirTemp("", "jibe-deb-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	info := &nfpm.Info{
		Name: "jibe", Arch: arch, Platform: "linux", Version: version, VersionSchema: "none",
		Section: "net", Priority: "optional", Maintainer: "The authors of Jibe <jibe@localhost>", License: "Apache-2.0",
		Description: "GitOps VNF manager\nKeeps the desired state of every virtualised network function in git, makes\nKubernetes and OpenStack jibe with it, and speaks ETSI NFV SOL002/SOL003.",
		MTime:       at,
	}
	info.Depends = []string{"git (>= 1:2.39.5)", "ca-certificates", "systemd | systemd-standalone-sysusers", "systemd | systemd-standalone-tmpfiles"}
	info.Recommends = []string{"openssh-client"}
	info.Suggests = []string{"python3", "python3-yaml"}
	info.Deb.Compression = "gzip" // in seconds, and every dpkg reads it
	info.Scripts = nfpm.Scripts{PostInstall: c.scripts["postinst"], PreRemove: c.scripts["prerm"], PostRemove: c.scripts["postrm"]}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		to, compress := installed(name)
		if to == "" {
			return nil, fmt.Errorf("the package doesn't know where %s belongs", name)
		}
		data := c.files[name]
		if compress {
			if data, err = zipped(data); err != nil {
				return nil, err
			}
		}
		from := filepath.Join(dir, strings.ReplaceAll(to, "/", "_"))
		if err := os.WriteFile(from, data, 0o644); err != nil {
			return nil, err
		}
		content := &nfpmfiles.Content{Source: from, Destination: to, FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o644, MTime: at}}
		if name == "jibe" {
			content.FileInfo.Mode = 0o755
		}
		if strings.HasPrefix(to, "/etc/") {
			content.Type = nfpmfiles.TypeConfigNoReplace
		}
		info.Contents = append(info.Contents, content)
	}
	if info = nfpm.WithDefaults(info); info == nil {
		return nil, fmt.Errorf("nfpm takes no package for %s", arch)
	}
	if err := nfpm.PrepareForPackager(info, "deb"); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := deb.Default.Package(info, &b); err != nil {
		return nil, fmt.Errorf("make the package: %w", err)
	}
	return b.Bytes(), nil
}

var (
	tagged    = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)(?:-([0-9A-Za-z.-]+))?$`)
	afterTag  = regexp.MustCompile(`^(.+)-(\d+)-g([0-9a-f]+)$`)
	notDebian = regexp.MustCompile(`[^0-9A-Za-z.+~]+`)
)

// dirty is what git describe says of sources that were changed since the commit.
const dirty = "-dirty"

// isTag says whether a version is a tag, and nothing that comes behind one.
func isTag(version string) bool {
	return tagged.MatchString(version) && !afterTag.MatchString(version) && !strings.HasSuffix(version, dirty)
}

// debianVersion is a version as Debian orders them: what comes before a release (v1.2.3-rc.1) is
// older than it, what comes after (v1.2.3-4-gabc) newer, and what no tag precedes older than all.
func debianVersion(version string) string {
	tag, after := version, ""
	tag, changed := strings.CutSuffix(tag, dirty)
	if m := afterTag.FindStringSubmatch(tag); m != nil {
		tag, after = m[1], "+"+m[2]+".g"+m[3]
	}
	if changed {
		if after == "" {
			after = "+0"
		}
		after += ".dirty"
	}
	m := tagged.FindStringSubmatch(tag)
	if m == nil {
		return "0.0.0~" + notDebian.ReplaceAllString(version, ".")
	}
	number := m[1]
	if m[2] != "" {
		number += "~" + notDebian.ReplaceAllString(m[2], ".")
	}
	return number + after
}
