// Command image makes the container image of Jibe: see the package of that name below
// packaging/internal, and the script build beside this file, which people call.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"

	"github.com/jibe-vnfm/jibe/packaging/internal/build"
	"github.com/jibe-vnfm/jibe/packaging/internal/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var o image.Options
	var root, version, commit, with string
	flag.StringVar(&root, "root", ".", "folder of Jibe's sources")
	flag.StringVar(&version, "version", "", "version, which is the image's tag (default: what git describe says)")
	flag.StringVar(&commit, "commit", "", "commit that the sources are of (default: git's)")
	flag.StringVar(&with, "with", "", "more packages of Debian, with commas, for hooks of packages: python3,bash,coreutils")
	flag.StringVar(&o.Out, "o", "", "file to write, a docker-archive (required)")
	flag.StringVar(&o.Arch, "arch", runtime.GOARCH, "architecture: amd64 or arm64")
	flag.StringVar(&o.Name, "name", "jibe", "name of the image, as registry.example/nfv/jibe")
	flag.StringVar(&o.Binary, "binary", "", "binary to take (default: it is compiled)")
	flag.StringVar(&o.Sources, "sources", "", "file as /etc/apt/sources.list with the archives of Debian 12 (default: those of this machine)")
	flag.StringVar(&o.SBOM, "sbom", "", "file to write the image's SBOM to, too")
	flag.StringVar(&o.PackagesList, "packages", "", "file to write the names and versions of Debian's packages to, too")
	flag.Parse()
	if flag.NArg() > 0 {
		return errors.New("there is nothing to say behind the flags: " + strings.Join(flag.Args(), " "))
	}
	o.With = strings.FieldsFunc(with, func(r rune) bool { return r == ',' || r == ' ' })
	release, err := build.Of(ctx, root, version, commit)
	if err != nil {
		return err
	}
	said, err := image.Make(ctx, release, o)
	if err != nil {
		return err
	}
	fmt.Println(said)
	return nil
}
