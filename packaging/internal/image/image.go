// Package image makes the container image of Jibe without a container engine and without
// pulling an image: Jibe's static binary, and of Debian's packages git, its ssh, the
// certificates of the authorities, and the shell that runs git's hooks. It writes a file that
// "docker load", "podman load", "ctr images import" and registries' tools take. For the same
// sources and the same packages it is the same, byte for byte.
package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

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

// Options say what image is made.
type Options struct {
	Out          string   // file to write, a docker-archive
	Arch         string   // one of Architectures
	With         []string // more packages of Debian
	Name         string   // name of the image, without a tag, which is the version
	Binary       string   // binary to take; "" compiles it
	Sources      string   // file as /etc/apt/sources.list; "" is what this machine uses of Debian 12
	SBOM         string   // file for the image's SBOM; "" leaves it to the image alone
	PackagesList string   // file for the names and versions of Debian's packages; "" writes none
}

// Architectures are those of which Jibe is released.
var Architectures = []string{"amd64", "arm64"}

// Make makes the image of a release, and returns a line that says what it is.
func Make(ctx context.Context, release build.Release, o Options) (string, error) {
	if o.Out == "" {
		return "", errors.New("name the file to write with -o FILE.tar")
	}
	if !slices.Contains(Architectures, o.Arch) {
		return "", fmt.Errorf("--arch %s: want one of %s", o.Arch, strings.Join(Architectures, ", "))
	}
	tag, err := name.NewTag(o.Name+":"+Tag(release.Version), name.WithDefaultRegistry(""))
	if err != nil {
		return "", fmt.Errorf("--name %s: %w", o.Name, err)
	}
	work, err := os.MkdirTemp("", "jibe-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if o.Binary == "" {
		o.Binary = filepath.Join(work, "jibe")
		if err := release.Binary(ctx, o.Arch, o.Binary); err != nil {
			return "", err
		}
	}
	modules, err := licences.Of(ctx, release.Root, o.Arch)
	if err != nil {
		return "", err
	}
	system, packages, err := systemOf(ctx, o)
	if err != nil {
		return "", err
	}
	bill, err := sbom.Of(release, o.Arch, o.Binary, modules, packages)
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(o.Binary)
	if err != nil {
		return "", err
	}
	own, err := jibeOf(release, program, licences.Text(modules), bill)
	if err != nil {
		return "", err
	}
	image, err := assemble(release, o.Arch, system, own)
	if err != nil {
		return "", err
	}
	if err := write(o.Out, tag, image); err != nil {
		return "", err
	}
	if o.SBOM != "" {
		if err := os.WriteFile(o.SBOM, bill, 0o644); err != nil {
			return "", err
		}
	}
	if o.PackagesList != "" {
		var list strings.Builder
		for _, p := range packages {
			fmt.Fprintf(&list, "%s=%s\n", p.Name, p.Version)
		}
		if err := os.WriteFile(o.PackagesList, []byte(list.String()), 0o644); err != nil {
			return "", err
		}
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	size, err := sizeOf(image)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: image %s for linux/%s, %d packages of Debian, %.1f MB packed, %s", o.Out, tag, o.Arch, len(packages), float64(size)/1e6, digest), nil
}

var untaggable = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// Tag is a version as the tag of an image, which may have no plus sign.
func Tag(version string) string { return untaggable.ReplaceAllString(version, "_") }

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
	config.Config = configOf(release)
	return mutate.ConfigFile(image, config)
}

// configOf is how the image is run. The Dockerfile says the same, which a test holds.
func configOf(release build.Release) v1.Config {
	return v1.Config{
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
