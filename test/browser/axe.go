package browser

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// axe-core is what pages are held against for accessibility: a package of npm's registry, got by
// npm itself into the cache, and checked by its digest. It is no part of Jibe.
const (
	axeVersion = "4.10.3"
	axeDigest  = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb" // SHA-256 of axe.min.js
)

// axe returns the text of axe-core's script.
func axe(t testing.TB) string {
	t.Helper()

	text, err := cachedAxe(t)
	if err != nil {
		t.Fatalf("axe-core %s, which pages are held against for accessibility: %v", axeVersion, err)
	}

	return text
}

func cachedAxe(t testing.TB) (string, error) {
	cache := os.Getenv("JIBE_CACHE")
	if cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "jibe")
	}
	dir := filepath.Join(cache, "axe-core-"+axeVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "axe.min.js")
	if text, err := os.ReadFile(file); err == nil && digestOf(text) == axeDigest {
		return string(text), nil
	}
	testenv.Program(t, "npm", "npm")
	out, err := exec.CommandContext(t.Context(), "npm", "pack", "axe-core@"+axeVersion, "--silent", "--pack-destination", dir).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("npm pack: %w: %s", err, out)
	}
	archive := filepath.Join(dir, "axe-core-"+axeVersion+".tgz")
	defer os.Remove(archive)
	text, err := fromArchive(archive, "package/axe.min.js")
	if err != nil {
		return "", err
	}
	if got := digestOf(text); got != axeDigest {
		return "", fmt.Errorf("axe.min.js has the digest %s, want %s", got, axeDigest)
	}
	return string(text), os.WriteFile(file, text, 0o644)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func fromArchive(archive, name string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s has no %s", archive, name)
		}
		if err != nil {
			return nil, err
		}
		if h.Name == name {
			return io.ReadAll(io.LimitReader(r, 8<<20))
		}
	}
}

// violation is what axe-core says against a page.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct {
		HTML           string
		FailureSummary string
	}
}

// Accessible fails the test where axe-core finds anything on the page that WCAG 2.2 A or AA, or
// good practice, says otherwise.
func (p *Tab) Accessible() {
	p.t.Helper()
	script := axe(p.t)
	p.Eval(script + "; true")
	text := p.Eval(`axe.run(document, {resultTypes: ["violations"], runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]})
		.then(r => ({violations: r.violations.map(v => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.slice(0, 5).map(n => ({HTML: n.html, FailureSummary: n.failureSummary}))})), passes: r.passes.length}))`)
	var found struct {
		Violations []violation
		Passes     int
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		p.t.Fatalf("axe-core's answer: %v", err)
	}
	if found.Passes < 10 {
		p.t.Errorf("axe-core has found only %d rules kept: did it look at all?", found.Passes)
	}
	for _, v := range found.Violations {
		var nodes []string
		for _, n := range v.Nodes {
			nodes = append(nodes, n.HTML+"\n    "+strings.ReplaceAll(n.FailureSummary, "\n", "\n    "))
		}
		p.t.Errorf("%s (%s): %s\n  %s", v.ID, v.Impact, v.Help, strings.Join(nodes, "\n  "))
	}
}
