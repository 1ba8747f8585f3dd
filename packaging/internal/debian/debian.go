// Package debian fetches packages of Debian with all that they depend on, for any architecture,
// and unpacks them into a tree, without installing anything and without being root. apt-get and
// dpkg-deb of this machine do the work: they know whom to trust, and check what they fetch.
//
// Packages are unpacked and not configured: their maintainer scripts don't run. What of that an
// image needs (the bundle of certificates, users), who builds the image makes.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/packaging/internal/rootfs"
)

// Codename is the release of Debian that images are made of.
const Codename = "bookworm"

// ErrNoSources is returned when this machine's apt knows no archive of Debian's release.
var ErrNoSources = errors.New("apt knows no archive of Debian " + Codename)

// Apt fetches packages of one architecture.
type Apt struct {
	Arch    string // Debian's name of it: amd64, arm64
	Cache   string // folder in which indexes and packages are kept for the next time
	Sources string // file as /etc/apt/sources.list; "" is what this machine uses of Debian's release
	// Provided are packages that count as installed: nothing of them is fetched.
	Provided []string
}

// Package is one that was fetched.
type Package struct {
	Name, Version, Arch, Source, SourceVersion string
	Control                                    string // the paragraph that dpkg has in its status file, without "Status"
	File                                       string // the .deb
}

// Fetch updates the indexes, resolves what the named packages depend on, and fetches all, sorted
// by name. A name may be NAME=VERSION. Only one process at a time works in a cache.
func (a Apt) Fetch(ctx context.Context, names ...string) ([]Package, error) {
	dir := filepath.Join(a.Cache, Codename+"-"+a.Arch)
	for _, d := range []string{"state/lists/partial", "archives/partial", "none/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return nil, err
		}
	}
	unlock, err := lock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	sources := a.Sources
	if sources == "" {
		list, err := machineSources(ctx)
		if err != nil {
			return nil, err
		}
		sources = filepath.Join(dir, "sources.list")
		if err := os.WriteFile(sources, list, 0o644); err != nil {
			return nil, err
		}
	}
	if sources, err = filepath.Abs(sources); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "status"), a.provided(), 0o644); err != nil {
		return nil, err
	}
	options := []string{
		"-q", "-y", "--no-install-recommends",
		"-o", "Dir::State=" + filepath.Join(dir, "state"), "-o", "Dir::State::status=" + filepath.Join(dir, "status"),
		"-o", "Dir::Cache=" + dir, "-o", "Dir::Cache::archives=" + filepath.Join(dir, "archives"),
		"-o", "Dir::Etc::SourceList=" + sources, "-o", "Dir::Etc::SourceParts=/dev/null",
		"-o", "Dir::Etc::Preferences=/dev/null", "-o", "Dir::Etc::PreferencesParts=/dev/null",
		"-o", "APT::Architecture=" + a.Arch, "-o", "APT::Architectures::=" + a.Arch,
		"-o", "APT::Sandbox::User=", "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3",
	}
	if _, err := run(ctx, "apt-get", append(options, "update", "-o", "APT::Update::Error-Mode=any")...); err != nil {
		return nil, err
	}
	install := append(options, "install")
	// All are named where none of them has been fetched, as it seems.
	list, err := run(ctx, "apt-get", append(append(slices.Clone(install), "--print-uris", "-o", "Dir::Cache::archives="+filepath.Join(dir, "none")), names...)...)
	if err != nil {
		return nil, err
	}
	if _, err := run(ctx, "apt-get", append(append(slices.Clone(install), "--download-only"), names...)...); err != nil {
		return nil, err
	}
	var packages []Package
	for _, m := range uri.FindAllSubmatch(list, -1) {
		p, err := describe(ctx, filepath.Join(dir, "archives", string(m[1])))
		if err != nil {
			return nil, err
		}
		packages = append(packages, p)
	}
	if len(packages) == 0 {
		return nil, fmt.Errorf("apt-get would install nothing for %v:\n%s", names, list)
	}
	slices.SortFunc(packages, func(x, y Package) int { return strings.Compare(x.Name, y.Name) })
	return packages, nil
}

// uri matches a line of apt-get --print-uris: 'URI' FILE SIZE HASH.
var uri = regexp.MustCompile(`(?m)^'[^']*' (\S+\.deb) \d+ `)

// provided writes a status file in which all that a.Provided names is installed, in a version
// that is above any that is asked for.
func (a Apt) provided() []byte {
	var b bytes.Buffer
	for _, name := range a.Provided {
		fmt.Fprintf(&b, "Package: %s\nStatus: install ok installed\nMaintainer: nobody\nArchitecture: %s\nMulti-Arch: foreign\nVersion: 999:0\nDescription: left out\n\n", name, a.Arch)
	}
	return b.Bytes()
}

// machineSources are the archives of Debian's release that this machine's apt uses: its mirror,
// and the keys by which it trusts it. Archives of others are left out.
func machineSources(ctx context.Context) ([]byte, error) {
	out, err := run(ctx, "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI) $(SIGNED_BY)", "Created-By: Packages")
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 3 || f[1] != "main" || f[0] != Codename && f[0] != Codename+"-updates" && f[0] != Codename+"-security" {
			continue
		}
		options := ""
		if len(f) > 3 && filepath.IsAbs(f[3]) {
			options = "[signed-by=" + f[3] + "] "
		}
		list = append(list, fmt.Sprintf("deb %s%s %s main\n", options, f[2], f[0]))
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: build on Debian 12, or name a file of its archives with --sources", ErrNoSources)
	}
	return []byte(strings.Join(list, "")), nil
}

func describe(ctx context.Context, file string) (Package, error) {
	control, err := run(ctx, "dpkg-deb", "--field", file)
	if err != nil {
		return Package{}, err
	}
	p := Package{Control: strings.TrimSpace(string(control)), File: file}
	for line := range strings.Lines(p.Control) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Package":
			p.Name = value
		case "Version":
			p.Version = value
		case "Architecture":
			p.Arch = value
		case "Source": // NAME, or NAME (VERSION) where it differs
			name, version, _ := strings.Cut(value, " ")
			p.Source, p.SourceVersion = name, strings.Trim(version, "()")
		}
	}
	if p.Name == "" || p.Version == "" {
		return Package{}, fmt.Errorf("%s names no package and version", file)
	}
	if p.Source == "" {
		p.Source = p.Name
	}
	if p.SourceVersion == "" {
		p.SourceVersion = p.Version
	}
	return p, nil
}

// Purl is the package URL by which scanners know the package.
func (p Package) Purl() string {
	return fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s&distro=debian-12", p.Name, url.PathEscape(p.Version), p.Arch)
}

// Unpack adds the files of the package that keep wants to the tree.
func (p Package) Unpack(ctx context.Context, into rootfs.Tree, keep func(name string) bool) error {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", p.File)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: install Debian's package dpkg", err)
	}
	unpacked := into.Unpack(out, keep)
	if unpacked != nil {
		_ = cmd.Process.Kill()
	}
	if err := cmd.Wait(); err != nil && unpacked == nil {
		return fmt.Errorf("unpack %s: %w: %s", p.Name, err, problem.Bytes())
	}
	if unpacked != nil {
		return fmt.Errorf("unpack %s: %w", p.Name, unpacked)
	}
	return nil
}

// Status is dpkg's record of the packages, by which scanners tell what is installed.
func Status(packages []Package) []byte {
	var b bytes.Buffer
	for _, p := range packages {
		first, rest, _ := strings.Cut(p.Control, "\n")
		fmt.Fprintf(&b, "%s\nStatus: install ok installed\n%s\n\n", first, rest)
	}
	return b.Bytes()
}

func lock(name string) (func(), error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil
}

func run(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%s is missing: this needs a Debian or a system with its apt and dpkg", name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", name, err, out, problem.Bytes())
	}
	return out, nil
}
