package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// uploadGrowth is how much more memory than at rest the upload of a package may take,
	// whatever its size.
	uploadGrowth = 64 << 20
	uploadName   = "Files/image" // what makes the package large
)

// uploads measures what a large package costs that is onboarded by API: the server's memory,
// and the time beside that of git, which writes the same files.
func (b *bench) uploads(ctx context.Context) error {
	s, err := b.spawn(filepath.Join(b.tmp, "uploads"))
	if err != nil {
		return err
	}
	defer s.Kill()
	file := filepath.Join(b.tmp, "large.csar")
	if err := largePackage(file, int64(b.upload)<<20); err != nil {
		return err
	}
	idle, err := resident(s.Pid())
	if err != nil {
		return err
	}
	start := time.Now()
	add := exec.CommandContext(ctx, b.binary, "package", "add", file, "--server", s.URL, "--data", s.Data)
	if out, err := add.CombinedOutput(); err != nil {
		return fmt.Errorf("package add: %w: %s", err, out)
	}
	onboarded := time.Since(start)
	most, err := peak(s.Pid())
	if err != nil {
		return err
	}
	size := fmt.Sprintf("a package of %d MiB", b.upload)
	b.value(size+": memory of the server at its peak", fmt.Sprintf("%d MiB", most>>20), most-idle <= uploadGrowth,
		fmt.Sprintf("<= %d MiB more than at rest", uploadGrowth>>20), fmt.Sprintf("at rest %d MiB", idle>>20))
	peer, err := b.commitLarge(ctx, file)
	if err != nil {
		return err
	}
	b.value(size+": from its upload to ONBOARDED", short(onboarded), true, "", fmt.Sprintf("%s what git takes to add and commit its files", ratio(onboarded.Seconds(), peer.Seconds())))
	if err := download(ctx, s.URL, s.Token); err != nil {
		return err
	}
	if most, err = peak(s.Pid()); err != nil {
		return err
	}
	b.value(size+": memory at its peak, once it was downloaded too", fmt.Sprintf("%d MiB", most>>20), most-idle <= uploadGrowth,
		fmt.Sprintf("<= %d MiB more than at rest", uploadGrowth>>20), "")
	return s.Stop()
}

// largePackage writes the package with one more file, which can't be compressed.
func largePackage(name string, size int64) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	sub, err := fs.Sub(tiny, "package")
	if err != nil {
		return err
	}
	if err := z.AddFS(sub); err != nil {
		return err
	}
	w, err := z.CreateHeader(&zip.FileHeader{Name: uploadName, Method: zip.Store})
	if err != nil {
		return err
	}
	if _, err := io.CopyN(w, rand.NewChaCha8([32]byte{1}), size); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	return f.Close()
}

// commitLarge is what git takes for the same files.
func (b *bench) commitLarge(ctx context.Context, file string) (time.Duration, error) {
	dir := filepath.Join(b.tmp, "large")
	if out, err := exec.CommandContext(ctx, "unzip", "-q", file, "-d", dir).CombinedOutput(); err != nil {
		return 0, fmt.Errorf("unzip: %w: %s", err, out)
	}
	start := time.Now()
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "--message", "A package"}} {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("git %v: %w: %s", args, err, out)
		}
	}
	return time.Since(start), nil
}

// download reads the content of the only package to its end.
func download(ctx context.Context, server, token string) error {
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, server+"/vnfpkgm/v2/vnf_packages"+path, nil)
		if err != nil {
			return nil, err
		}
		r.Header = http.Header{"Version": {"2.1.0"}, "Authorization": {"Bearer " + token}}
		a, err := http.DefaultClient.Do(r)
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s answered %s", path, a.Status)
			a.Body.Close()
		}
		return a, err
	}
	a, err := get("")
	if err != nil {
		return err
	}
	defer a.Body.Close()
	var list []struct {
		ID string `json:"id"`
	}
	if err := json.NewDecoder(a.Body).Decode(&list); err != nil || len(list) != 1 {
		return fmt.Errorf("there are %d packages (%w)", len(list), err)
	}
	content, err := get("/" + list[0].ID + "/package_content")
	if err != nil {
		return err
	}
	defer content.Body.Close()
	_, err = io.Copy(io.Discard, content.Body)
	return err
}
