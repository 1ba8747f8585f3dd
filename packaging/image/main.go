// Command image makes the container image of Jibe without a container engine and without
// pulling an image: Jibe's static binary, and of Debian's packages git, its ssh, the
// certificates of the authorities, and the shell that runs git's hooks. It writes a file that
// "docker load", "podman load", "ctr images import" and registries' tools take. For the same
// sources and the same packages it is the same, byte for byte.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/licences"
	"github.com/jibe-vnfm/jibe/packaging/internal/sbom"
)

type options struct {
	root, out, arch, with, name, version, binary, sources, sbom, packages string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var o options
	flag.StringVar(&o.root, "root", ".", "folder of Jibe's sources")
	flag.StringVar(&o.out, "o", "", "file to write, a docker-archive (required)")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture: amd64 or arm64")
	flag.StringVar(&o.with, "with", "", "more packages of Debian, with commas, for hooks of packages: python3,bash,coreutils")
	flag.StringVar(&o.name, "name", "jibe", "name of the image, as registry.example/nfv/jibe; its tag is the version")
	flag.StringVar(&o.version, "version", "", "version (default: what git describe says)")
	flag.StringVar(&o.binary, "binary", "", "binary to take (default: it is compiled)")
	flag.StringVar(&o.sources, "sources", "", "file as /etc/apt/sources.list with the archives of Debian 12 (default: those of this machine)")
	flag.StringVar(&o.sbom, "sbom", "", "file to write the image's SBOM to, too")
	flag.StringVar(&o.packages, "packages", "", "file to write the names and versions of Debian's packages to, too")
	flag.Parse()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

var architectures = []string{"amd64", "arm64"}

func (o options) run(ctx context.Context) error {
	if o.out == "" || flag.NArg() > 0 {
		return errors.New("name the file to write with -o FILE.tar, and nothing else behind the flags")
	}
	if !slices.Contains(architectures, o.arch) {
		return fmt.Errorf("--arch %s: want one of %s", o.arch, strings.Join(architectures, ", "))
	}
	release, err := build.Of(ctx, o.root, o.version)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(o.name+":"+tagOf(release.Version), name.WithDefaultRegistry(""))
	if err != nil {
		return fmt.Errorf("--name %s: %w", o.name, err)
	}
	work, err := os.MkdirTemp("", "jibe-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if o.binary == "" {
		o.binary = filepath.Join(work, "jibe")
		if err := release.Binary(ctx, o.arch, o.binary); err != nil {
			return err
		}
	}
	modules, err := licences.Of(ctx, release.Root, o.arch)
	if err != nil {
		return err
	}
	more := strings.FieldsFunc(o.with, func(r rune) bool { return r == ',' || r == ' ' })
	system, packages, err := systemOf(ctx, o, more)
	if err != nil {
		return err
	}
	bill, err := sbom.Of(release, o.arch, o.binary, modules, packages)
	if err != nil {
		return err
	}
	program, err := os.ReadFile(o.binary)
	if err != nil {
		return err
	}
	own, err := jibeOf(release, program, licences.Text(modules), bill)
	if err != nil {
		return err
	}
	image, err := assemble(release, o.arch, system, own)
	if err != nil {
		return err
	}
	if err := write(o.out, tag, image); err != nil {
		return err
	}
	if o.sbom != "" {
		if err := os.WriteFile(o.sbom, bill, 0o644); err != nil {
			return err
		}
	}
	if o.packages != "" {
		var list strings.Builder
		for _, p := range packages {
			fmt.Fprintf(&list, "%s=%s\n", p.Name, p.Version)
		}
		if err := os.WriteFile(o.packages, []byte(list.String()), 0o644); err != nil {
			return err
		}
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	size, err := sizeOf(image)
	if err != nil {
		return err
	}
	fmt.Printf("%s: image %s for linux/%s, %d packages of Debian, %.1f MB packed, %s\n", o.out, tag, o.arch, len(packages), float64(size)/1e6, digest)
	return nil
}

var untaggable = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// tagOf is a version as the tag of an image, which may have no plus sign.
func tagOf(version string) string { return untaggable.ReplaceAllString(version, "_") }

// assemble puts two layers above nothing: the system, which is the same for many releases, and
// what is Jibe's own.
func assemble(release build.Release, arch string, layers ...[]byte) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.DockerManifestSchema2)
	image = mutate.ConfigMediaType(image, types.DockerConfigJSON)
	created := v1.Time{Time: release.Date}
	for i, data := range layers {
		layer, err := tarball.LayerFromOpener(opener(data))
		if err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{
			Created: created, CreatedBy: "packaging/image/build", Comment: []string{"packages of Debian 12", "jibe " + release.Version}[i]}})
		if err != nil {
			return nil, err
		}
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Architecture, config.OS, config.Created = arch, "linux", created
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", userID, userID),
		ExposedPorts: map[string]struct{}{"9890/tcp": {}},
		Env:          []string{"PATH=/usr/bin:/bin", "HOME=" + dataDir, "JIBE_DATA=" + dataDir, "SSL_CERT_FILE=/" + certificates},
		Entrypoint:   []string{"/usr/bin/jibe"},
		Cmd:          []string{"serve"},
		Volumes:      map[string]struct{}{dataDir: {}},
		WorkingDir:   dataDir,
		Labels: map[string]string{
			"org.opencontainers.image.title":       "jibe",
			"org.opencontainers.image.description": "GitOps VNF manager",
			"org.opencontainers.image.version":     release.Version,
			"org.opencontainers.image.revision":    release.Commit,
			"org.opencontainers.image.created":     release.Date.Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.licenses":    "Apache-2.0",
		},
	}
	return mutate.ConfigFile(image, config)
}

// write writes the image beside the file's name first, so that nobody finds half of it.
func write(out string, tag name.Tag, image v1.Image) error {
	f, err := os.CreateTemp(filepath.Dir(out), ".image-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if err := tarball.Write(tag, image, f); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return os.Rename(f.Name(), out)
}

func sizeOf(image v1.Image) (int64, error) {
	layers, err := image.Layers()
	var sum int64
	for _, l := range layers {
		n, problem := l.Size()
		if problem != nil {
			return 0, problem
		}
		sum += n
	}
	return sum, err
}
