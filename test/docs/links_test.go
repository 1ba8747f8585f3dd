package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The patterns of a link in Markdown, of a heading, of a link in one, and of what a heading's anchor leaves out.
var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading  = regexp.MustCompile(`^#+ (.*)`)
	inner    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	unheeded = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// page is what a file of Markdown leads to, and where in it others may lead.
type page struct {
	links   map[string]int // by the line of the first
	anchors map[string]bool
}

func readPage(t *testing.T, name string) page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	p, code, seen, n := page{map[string]int{}, map[string]bool{}}, false, map[string]int{}, 0
	for line := range strings.Lines(string(text)) {
		n++
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if code {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(line, -1) {
			if p.links[m[1]] == 0 {
				p.links[m[1]] = n
			}
		}
		if m := heading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			anchor := strings.ToLower(strings.ReplaceAll(inner.ReplaceAllString(m[1], "$1"), "`", ""))
			anchor = strings.ReplaceAll(unheeded.ReplaceAllString(anchor, ""), " ", "-")
			if times := seen[anchor]; times > 0 {
				p.anchors[anchor+"-"+strconv.Itoa(times)] = true
			} else {
				p.anchors[anchor] = true
			}
			seen[anchor]++
		}
	}
	return p
}

func TestEveryLinkBetweenPagesLeadsToAFileAndAHeadingThatAreThere(t *testing.T) {
	pages := map[string]page{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2 && d.Name() != ".github":
			return fs.SkipDir
		case strings.HasSuffix(path, ".md"):
			pages[filepath.Clean(path)] = readPage(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for name, p := range pages {
		for to, line := range p.links {
			if strings.Contains(to, ":") { // another site
				continue
			}
			n++
			file, anchor, _ := strings.Cut(to, "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s:%d: %s isn't there", name, line, to)
			} else if there, ok := pages[target]; ok && anchor != "" && !there.anchors[anchor] {
				t.Errorf("%s:%d: %s has no such heading", name, line, to)
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d links were followed", n)
	}
}
