// Command release makes what a version of Jibe is given to others as: for each architecture of
// Linux an archive, a package of Debian, the image, and of what they are made; the Helm chart; the
// changelog's section; the checksums of all, signed where a key is given. All is the same, byte for byte,
// for the same sources, Go and packages of Debian.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/image"
	"github.com/jibe-vnfm/jibe/packaging/internal/licences"
	"github.com/jibe-vnfm/jibe/packaging/internal/sbom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var root, out, version, commit, arches, key, sources, binary string
	var images bool
	flag.StringVar(&root, "root", "..", "folder of Jibe's sources")
	flag.StringVar(&out, "out", "../dist", "folder to write to; what was in it is removed once all is made")
	flag.StringVar(&version, "version", "", "version (default: what git describe says)")
	flag.StringVar(&commit, "commit", "", "commit that the sources are of (default: git's)")
	flag.StringVar(&arches, "arch", strings.Join(image.Architectures, ","), "architectures, with commas")
	flag.StringVar(&key, "key", "", "key by which the checksums are signed: a file of an SSH key, or gpg:ID (default: they aren't)")
	flag.StringVar(&sources, "sources", "", "file as /etc/apt/sources.list with the archives of Debian 12 (default: those of this machine)")
	flag.StringVar(&binary, "binary", "", "file that this machine's binary is copied to, too")
	flag.BoolVar(&images, "images", true, "make images, too")
	flag.Parse()
	release, err := build.Of(ctx, root, version, commit)
	if err != nil {
		return err
	}
	// All is made beside the folder first: nobody finds half a release in it.
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(out), ".release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	work, err := os.MkdirTemp("", "jibe-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	m := maker{release: release, dir: dir, work: work, sources: sources, images: images}
	if err := m.notes(); err != nil { // first: what else is made takes minutes
		return err
	}
	if err := m.documents(ctx); err != nil {
		return err
	}
	for arch := range strings.SplitSeq(arches, ",") {
		if !slices.Contains(image.Architectures, arch) {
			return fmt.Errorf("--arch %s: want of %s", arch, strings.Join(image.Architectures, ", "))
		}
		if err := m.architecture(ctx, arch); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	if err := m.chart(); err != nil {
		return err
	}
	if err := m.sums(ctx, key); err != nil {
		return err
	}
	if binary != "" {
		data, err := os.ReadFile(m.native)
		if err != nil {
			return err
		}
		if err := replace(binary, data); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	return os.Rename(dir, out)
}

// replace writes a program beside its name and renames it, as the old one may be running.
func replace(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", data, 0o755); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// maker makes one release.
type maker struct {
	release build.Release
	dir     string // what is given to others
	work    string // what is needed on the way
	sources string
	images  bool
	native  string // binary that runs on this machine
	// docs are files that are the same for all architectures, by where they are in an archive:
	// manual pages and completions of the shells.
	docs map[string][]byte
}

// documents has the binary write its manual pages and completions.
func (m *maker) documents(ctx context.Context) error {
	m.native = filepath.Join(m.work, "jibe-"+runtime.GOARCH)
	fmt.Printf("jibe %s of %s: compiling for linux/%s\n", m.release.Version, m.release.Date.Format("2006-01-02"), runtime.GOARCH)
	if err := m.release.Binary(ctx, runtime.GOARCH, m.native); err != nil {
		return err
	}
	m.docs = map[string][]byte{}
	pages := filepath.Join(m.work, "man")
	if _, err := m.jibe(ctx, "man", pages); err != nil {
		return err
	}
	list, err := os.ReadDir(pages)
	if err != nil {
		return err
	}
	for _, page := range list {
		if m.docs["man/"+page.Name()], err = os.ReadFile(filepath.Join(pages, page.Name())); err != nil {
			return err
		}
	}
	for shell, name := range map[string]string{"bash": "jibe.bash", "zsh": "_jibe", "fish": "jibe.fish"} {
		if m.docs["completions/"+name], err = m.jibe(ctx, "completion", shell); err != nil {
			return err
		}
	}
	return nil
}

// jibe runs the binary without this machine's settings, which are defaults of flags.
func (m *maker) jibe(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, m.native, args...)
	cmd.Env = []string{"HOME=/nonexistent"}
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("jibe %s: %w: %s", strings.Join(args, " "), err, problem.Bytes())
	}
	return out, nil
}

// architecture makes what there is for one.
func (m *maker) architecture(ctx context.Context, arch string) error {
	binary := filepath.Join(m.work, "jibe-"+arch)
	if arch != runtime.GOARCH {
		fmt.Printf("compiling for linux/%s\n", arch)
		if err := m.release.Binary(ctx, arch, binary); err != nil {
			return err
		}
	}
	modules, err := licences.Of(ctx, m.release.Root, arch)
	if err != nil {
		return err
	}
	bill, err := sbom.Of(m.release, arch, binary, modules, nil)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("jibe_%s_linux_%s", m.number(), arch)
	if err := m.write(name+".cdx.json", bill); err != nil {
		return err
	}
	files, err := m.files(program, licences.Text(modules), bill)
	if err != nil {
		return err
	}
	archive, err := files.archive(name, m.release.Date)
	if err != nil {
		return err
	}
	if err := m.write(name+".tar.gz", archive); err != nil {
		return err
	}
	pkg, err := files.debian(debianVersion(m.release.Version), arch, m.release.Date)
	if err != nil {
		return err
	}
	if err := m.write(fmt.Sprintf("jibe_%s_%s.deb", debianVersion(m.release.Version), arch), pkg); err != nil {
		return err
	}
	if !m.images {
		return nil
	}
	base := filepath.Join(m.dir, fmt.Sprintf("jibe_%s_image_%s", m.number(), arch))
	said, err := image.Make(ctx, m.release, image.Options{Out: base + ".tar", Arch: arch, Name: "jibe", Binary: binary, Sources: m.sources,
		SBOM: base + ".cdx.json", PackagesList: base + ".packages.txt"})
	if err != nil {
		return fmt.Errorf("image: %w", err)
	}
	fmt.Println(strings.TrimPrefix(said, m.dir+"/"))
	return nil
}

// number is the version in names of files: without the v of the tag.
func (m *maker) number() string { return strings.TrimPrefix(m.release.Version, "v") }

func (m *maker) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(m.dir, name), data, 0o644)
}

// notes writes the changelog's section of the version; before its release, of what isn't released.
func (m *maker) notes() error {
	log, err := os.ReadFile(filepath.Join(m.release.Root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section, err := sectionOf(string(log), m.release.Version)
	if err != nil {
		return err
	}
	return m.write("release-notes.md", []byte(section))
}

// sectionOf is the section of a version in the changelog. A tag (v1.2.3) must have one; of
// what lies between tags it is the unreleased one.
func sectionOf(log, version string) (string, error) {
	heading := "[Unreleased]"
	if isTag(version) {
		heading = "[" + strings.TrimPrefix(version, "v") + "]"
	}
	_, rest, found := strings.Cut(log, "\n## "+heading)
	if !found {
		return "", fmt.Errorf("CHANGELOG.md has no section ## %s: a release begins by giving what is unreleased its version and date", heading)
	}
	if next := strings.Index(rest, "\n## "); next >= 0 {
		rest = rest[:next]
	}
	if _, text, _ := strings.Cut(rest, "\n"); strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("the section ## %s of CHANGELOG.md is empty: say what is new", heading)
	}
	return "# Jibe " + strings.Trim(heading, "[]") + strings.TrimRight(rest, "\n") + "\n", nil
}

// sums writes the checksums of all files, and signs them where there is a key.
func (m *maker) sums(ctx context.Context, key string) error {
	list, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range list {
		sum, err := digest(filepath.Join(m.dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sum, e.Name())
	}
	if err := m.write("SHA256SUMS", []byte(sums.String())); err != nil {
		return err
	}
	fmt.Print(sums.String())
	if key == "" {
		fmt.Println("SHA256SUMS isn't signed, as no key is given (RELEASE_KEY)")
		return nil
	}
	file := filepath.Join(m.dir, "SHA256SUMS")
	cmd := exec.CommandContext(ctx, "ssh-keygen", "-q", "-Y", "sign", "-n", "jibe-release", "-f", key, file)
	if id, isGPG := strings.CutPrefix(key, "gpg:"); isGPG {
		cmd = exec.CommandContext(ctx, "gpg", "--batch", "--yes", "--armor", "--local-user", id, "--output", file+".asc", "--detach-sign", file)
	} else if _, err := os.Stat(key); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the key %s isn't there: name a file of an SSH key, or gpg:ID", key)
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sign SHA256SUMS: %s: %w: %s", filepath.Base(cmd.Path), err, said)
	}
	return nil
}

func digest(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
