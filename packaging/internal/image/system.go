package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/debian"
	"github.com/jibe-vnfm/jibe/packaging/internal/rootfs"
)

// The user that Jibe is in the image, and where its data are.
const (
	userID       = 65532
	dataDir      = "/var/lib/jibe"
	certificates = "etc/ssl/certs/ca-certificates.crt"
)

// wanted is what Jibe needs of a system: git, ssh for repositories that are reached by it, the
// authorities' certificates, and a shell, as git runs its hooks and its ssh by one. base-files says
// which Debian it is, by which scanners know where to look.
var wanted = []string{"base-files", "ca-certificates", "dash", "git", "openssh-client"}

// provided are packages that others depend on, for what nobody does in the image: installing
// packages (debconf, dpkg, adduser …), and the parts of git that are written in Perl.
var provided = []string{
	"adduser", "awk", "debconf", "debianutils", "dpkg", "liberror-perl", "mawk", "openssl", "passwd", "perl", "perl-base", "tar",
}

// systemOf makes the layer of Debian's packages, with what their maintainer scripts would have made.
//
// Its times are those that the packages say, so that it is the same layer for every release that
// is made of the same packages.
func systemOf(ctx context.Context, o Options) ([]byte, []debian.Package, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, nil, err
	}
	apt := debian.Apt{Arch: o.Arch, Cache: cache, Sources: o.Sources}
	for _, p := range provided {
		if !slices.ContainsFunc(o.With, func(m string) bool { m, _, _ = strings.Cut(m, "="); return m == p }) {
			apt.Provided = append(apt.Provided, p)
		}
	}
	packages, err := apt.Fetch(ctx, slices.Concat(wanted, o.With)...)
	if err != nil {
		return nil, nil, err
	}
	t := rootfs.Tree{}
	for _, p := range packages {
		if err := p.Unpack(ctx, t, kept); err != nil {
			return nil, nil, err
		}
	}
	dropUnrunnable(t)
	if err := trust(t); err != nil {
		return nil, nil, err
	}
	for _, dir := range rootfs.Merged {
		t[dir] = rootfs.File{Type: tar.TypeSymlink, Mode: 0o777, Target: "usr/" + dir}
		t["usr/"+dir] = rootfs.File{Type: tar.TypeDir, Mode: 0o755}
	}
	t["tmp"] = rootfs.File{Type: tar.TypeDir, Mode: 0o1777}
	t[strings.TrimPrefix(dataDir, "/")] = rootfs.File{Type: tar.TypeDir, Mode: 0o750, UID: userID, GID: userID}
	t.Add("etc/passwd", 0o644, fmt.Appendf(nil, "root:x:0:0:root:/root:/usr/sbin/nologin\njibe:x:%d:%d:Jibe:%s:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n", userID, userID, dataDir))
	t.Add("etc/group", 0o644, fmt.Appendf(nil, "root:x:0:\njibe:x:%d:\nnogroup:x:65534:\n", userID))
	t.Add("etc/nsswitch.conf", 0o644, []byte("passwd: files\ngroup: files\nhosts: files dns\n"))
	t.Add("var/lib/dpkg/status", 0o644, debian.Status(packages))
	var layer bytes.Buffer
	if err := t.Write(&layer, t.Newest()); err != nil {
		return nil, nil, err
	}
	return layer.Bytes(), packages, nil
}

// kept says which files of packages an image has: what programs read, and copyrights. Manuals,
// translations and what only installing needs are left out.
func kept(name string) bool {
	for _, dir := range []string{
		"usr/share/man/", "usr/share/info/", "usr/share/locale/", "usr/share/lintian/", "usr/share/doc-base/", "usr/share/bug/", "usr/share/perl5/",
		"usr/share/bash-completion/", "usr/share/gitweb/", "usr/share/debianutils/", "usr/share/git-core/contrib/", "etc/bash_completion.d/", "etc/update-motd.d/",
		"lib/git-core/", "home/", "media/", "mnt/", "opt/", "srv/", "boot/", "usr/games/", "usr/local/",
	} {
		if strings.HasPrefix(name+"/", dir) {
			return false
		}
	}
	if strings.HasPrefix(name, "usr/share/doc/") {
		return path.Base(name) == "copyright"
	}
	return !strings.Contains(name, "/gconv/") // character sets of iconv, which nobody converts
}

var shebang = regexp.MustCompile(`^#! *(/[^ \n]+)`)

// dropUnrunnable removes the scripts whose interpreter isn't in the image, and the symbolic links
// in folders of programs that lead nowhere, so that what is there can be run.
func dropUnrunnable(t rootfs.Tree) {
	for name, f := range t {
		if f.Type != tar.TypeReg || f.Mode&0o111 == 0 {
			continue
		}
		if m := shebang.FindSubmatch(f.Data); m != nil {
			if _, there := t.Resolve(string(m[1])); !there {
				delete(t, name)
			}
		}
	}
	for name, f := range t {
		if f.Type == tar.TypeLink {
			if _, there := t[f.Target]; !there {
				delete(t, name)
			}
		}
		if f.Type != tar.TypeSymlink || !strings.HasPrefix(name, "usr/bin/") && !strings.HasPrefix(name, "usr/sbin/") && !strings.HasPrefix(name, "usr/lib/git-core/") {
			continue
		}
		if _, there := t.Resolve(name); !there {
			delete(t, name)
		}
	}
}

// trust makes the bundle of all authorities' certificates, as update-ca-certificates does.
func trust(t rootfs.Tree) error {
	var bundle bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if strings.HasPrefix(name, "usr/share/ca-certificates/mozilla/") && strings.HasSuffix(name, ".crt") {
			bundle.Write(bytes.TrimRight(t[name].Data, "\n"))
			bundle.WriteByte('\n')
		}
	}
	if bundle.Len() == 0 {
		return errors.New("the package ca-certificates has no certificates where they are expected, in /usr/share/ca-certificates/mozilla")
	}
	t.Add(certificates, 0o644, bundle.Bytes())
	t["usr/lib/ssl/cert.pem"] = rootfs.File{Type: tar.TypeSymlink, Mode: 0o777, Target: "/" + certificates} // where OpenSSL looks
	return nil
}

// jibeOf makes the layer of what is Jibe's own.
func jibeOf(release build.Release, program, thirdParty, bill []byte) ([]byte, error) {
	license, err := os.ReadFile(filepath.Join(release.Root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	t := rootfs.Tree{}
	t.Add("usr/bin/jibe", 0o755, program)
	t.Add("usr/share/doc/jibe/copyright", 0o644, license)
	t.Add("usr/share/doc/jibe/THIRD_PARTY_LICENSES", 0o644, thirdParty)
	t.Add("usr/share/doc/jibe/sbom.cdx.json", 0o644, bill)
	var layer bytes.Buffer
	err = t.Write(&layer, release.Date)
	return layer.Bytes(), err
}

func cacheDir() (string, error) {
	if dir := os.Getenv("JIBE_CACHE"); dir != "" {
		return filepath.Abs(filepath.Join(dir, "packaging"))
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("where packages are kept: %w: set JIBE_CACHE", err)
	}
	return filepath.Join(dir, "jibe", "packaging"), nil
}

func opener(data []byte) tarball.Opener {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}
