package nodes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// layer is a tar of files, for images.
type layer struct {
	file   string // where the tar is
	digest string // hex, of its content
}

// entry is a file of a layer: from a file of this machine, or a link.
type entry struct{ place, source, link string }

// writeLayer writes a layer to a file.
func writeLayer(file string, entries []entry) (layer, error) {
	f, err := os.Create(file)
	if err != nil {
		return layer{}, err
	}
	defer f.Close()
	sum := sha256.New()
	w := tar.NewWriter(io.MultiWriter(f, sum))
	made := map[string]bool{".": true}
	// Directories come before what is in them. All have the same time, so that the same files
	// are the same layer.
	var parents func(dir string) error
	parents = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		if err := parents(path.Dir(dir)); err != nil {
			return err
		}
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode})
	}
	for _, e := range append(entries, entry{place: "tmp/."}) {
		place := strings.TrimPrefix(e.place, "/")
		if err := parents(path.Dir(place)); err != nil {
			return layer{}, err
		}
		switch {
		case e.link != "":
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: place, Linkname: e.link, Mode: 0o777})
		case e.source != "":
			err = copyIn(w, place, e.source)
		}
		if err != nil {
			return layer{}, fmt.Errorf("layer: %s: %w", place, err)
		}
	}
	if err := w.Close(); err != nil {
		return layer{}, err
	}
	return layer{file: file, digest: hex.EncodeToString(sum.Sum(nil))}, f.Close()
}

func copyIn(w *tar.Writer, place, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: place, Mode: int64(info.Mode().Perm()), Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return err
}

// image is a layer and how it is run, under names.
type image struct {
	names      []string
	entrypoint []string
	env        []string
	layer      layer
}

// writeArchive writes images to a docker archive, as "ctr images import" takes it.
func writeArchive(out io.Writer, images []image) error {
	w := tar.NewWriter(out)
	type listed struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	var list []listed
	layers := map[string]bool{}
	for _, i := range images {
		config, err := json.Marshal(map[string]any{
			"architecture": runtime.GOARCH, "os": "linux",
			"config": map[string]any{"Entrypoint": i.entrypoint, "Env": append([]string{"PATH=" + imagePath}, i.env...), "WorkingDir": "/"},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + i.layer.digest}},
		})
		if err != nil {
			return err
		}
		sum := sha256.Sum256(config)
		name := hex.EncodeToString(sum[:]) + ".json"
		if err := add(w, name, config); err != nil {
			return err
		}
		in := i.layer.digest + "/layer.tar"
		if !layers[in] {
			layers[in] = true
			if err := copyIn(w, in, i.layer.file); err != nil {
				return err
			}
		}
		list = append(list, listed{Config: name, RepoTags: i.names, Layers: []string{in}})
	}
	manifest, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := add(w, "manifest.json", manifest); err != nil {
		return err
	}
	return w.Close()
}

// imagePath is where images have their programs.
const imagePath = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func add(w *tar.Writer, name string, data []byte) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// shared is a line of ldd that names a library's file.
var shared = regexp.MustCompile(`(?m)(?:=> |^\t)(/\S+) \(0x`)

// packetFilter are the files of this machine's iptables, which kube-proxy runs, with their
// libraries.
func packetFilter(ctx context.Context) ([]entry, error) {
	multi, err := filepath.EvalSymlinks("/usr/sbin/xtables-nft-multi")
	if err != nil {
		return nil, err
	}
	extensions, err := filepath.Glob("/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	if len(extensions) == 0 {
		return nil, errors.New("this machine's iptables has no extensions in /usr/lib/*/xtables: install Debian's iptables")
	}
	// Extensions have libraries that the program hasn't.
	out, err := exec.CommandContext(ctx, "ldd", append([]string{multi}, extensions...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: %w", multi, err)
	}
	all := []entry{{place: multi, source: multi}}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		all = append(all, entry{place: "/usr/sbin/" + name, link: path.Base(multi)})
	}
	for _, e := range extensions {
		// Some are links to others.
		if to, err := os.Readlink(e); err == nil {
			all = append(all, entry{place: e, link: to})
		} else {
			all = append(all, entry{place: e, source: e})
		}
	}
	known := map[string]bool{}
	for _, m := range shared.FindAllSubmatch(out, -1) {
		if file := string(m[1]); !known[file] {
			known[file] = true
			all = append(all, entry{place: file, source: file})
		}
	}
	return all, nil
}

// webArchive is images that run the test program of this package, each telling its own name.
func webArchive(program layer, names []string) (*bytes.Buffer, error) {
	var images []image
	for _, name := range names {
		_, version, _ := strings.Cut(name, ":")
		images = append(images, image{
			names: []string{name}, entrypoint: []string{"/usr/local/bin/web"},
			env: []string{"IMAGE=" + name, "VERSION=" + version}, layer: program,
		})
	}
	var out bytes.Buffer
	return &out, writeArchive(&out, images)
}
