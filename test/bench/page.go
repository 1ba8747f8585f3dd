package main

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// page is what one run prints, as a page of the docs: docs/benchmarks.md, with a picture of what
// each latency is of its limit.
type page struct {
	facts     [][2]string // of the machine and the run
	headlines []headline
	sections  []*chapter
}

// headline is a number that people ask for first, beside what nothing that does the same is faster than
// in the same run: the disk, plain git, a bare client of the cluster.
type headline struct {
	// kind is what it is a number of, as "drift repair".
	kind string
	// what was done, what it took, the limit with its name, and the number in parts of it.
	what, measured, limit, share string
}

// chapter is one part of a page.
type chapter struct {
	title string
	rows  []entry
	// text are lines of tables, which are laid out already, and notes what no figure says.
	text, notes []string
}

// entry is one figure.
type entry struct {
	name, measured, more string
	// held is what it is held against, "" for nothing, and met whether it keeps it.
	held string
	met  bool
	// share is a latency's median in parts of its limit, 0 where it has none.
	share float64
}

// newPage tells of this machine.
func newPage(ctx context.Context, binary string, args []string) (*page, error) {
	version, err := exec.CommandContext(ctx, binary, "version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s version: %w", binary, err)
	}
	memory, model := "unknown", "unknown"
	for file, f := range map[string]struct {
		key  string
		into *string
	}{"/proc/meminfo": {"MemTotal:", &memory}, "/proc/cpuinfo": {"model name", &model}} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // this isn't Linux
		}
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, f.key); ok {
				*f.into = strings.TrimSpace(strings.TrimLeft(rest, "\t :"))
				break
			}
		}
	}
	kernel, _ := exec.CommandContext(ctx, "uname", "-sr").Output()
	git, _ := exec.CommandContext(ctx, "git", "version").Output()
	firstLine, _, _ := strings.Cut(string(version), "\n")
	return &page{facts: [][2]string{
		{"version", firstLine},
		{"command", strings.TrimSpace("test/bench/run " + strings.Join(args, " "))},
		{"day", time.Now().UTC().Format(time.DateOnly)},
		{"processors", fmt.Sprintf("%d of %s", runtime.NumCPU(), model)},
		{"memory", memory},
		{"system", strings.TrimSpace(string(kernel))},
		{"compiler, git", runtime.Version() + ", " + strings.TrimSpace(string(git))},
	}}, nil
}

func (p *page) last() *chapter {
	if len(p.sections) == 0 {
		p.sections = append(p.sections, &chapter{title: "Figures"})
	}
	return p.sections[len(p.sections)-1]
}

// write writes the page, and the picture beside it in pictures/.
func (p *page) write(file, total string) error {
	picture := p.picture()
	var b bytes.Buffer
	b.WriteString("# Benchmarks\n\nWritten by one run of `test/bench/run`, a part of `make bench`: don't edit it. Each figure stands beside its limit, or beside its peer (a bare client, plain git) of the same run:\n" +
		"the figures of one machine say nothing of another's, their ratios do. `p50` and `p95` are the median and the time below which 95 of 100 lie. What each part does: [`test/bench`](../test/bench).\n\n| | |\n|---|---|\n")
	for _, f := range p.facts {
		fmt.Fprintf(&b, "| %s | %s |\n", f[0], cell(f[1]))
	}
	fmt.Fprintf(&b, "\n%s\n", total)
	if picture != "" {
		b.WriteString("\n![The median of each latency that has a limit, in parts of the limit](pictures/benchmarks.svg)\n")
	}
	if len(p.headlines) > 0 {
		b.WriteString("\n## In short\n\n| | what | measured | physical limit, or peer, of the same run | |\n|---|---|---|---|---|\n")
	}
	for _, h := range p.ordered() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(h.kind), cell(h.what), cell(h.measured), cell(h.limit), cell(h.share))
	}
	for _, s := range p.sections {
		fmt.Fprintf(&b, "\n## %s\n\n", s.title)
		if len(s.rows) > 0 {
			b.WriteString("| figure | measured | held against | |\n|---|---|---|---|\n")
		}
		for _, e := range s.rows {
			held := e.held
			switch {
			case held != "" && e.met:
				held += ": met"
			case held != "":
				held = "**" + held + ": missed**"
			}
			name := cell(strings.TrimLeft(e.name, " "))
			if strings.HasPrefix(e.name, "  ") {
				name = "· " + name
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", name, cell(e.measured), held, cell(e.more))
		}
		if len(s.text) > 0 {
			fmt.Fprintf(&b, "\n```\n%s\n```\n", strings.Join(s.text, "\n"))
		}
		if len(s.notes) > 0 {
			b.WriteString("\n")
		}
		for _, n := range s.notes {
			fmt.Fprintf(&b, "* %s\n", n)
		}
	}
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		return err
	}
	if picture == "" {
		return nil
	}
	dir := filepath.Join(filepath.Dir(file), "pictures")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "benchmarks.svg"), []byte(picture), 0o644)
}

// ordered are the headlines in the order in which people ask for them.
func (p *page) ordered() []headline {
	kinds := []string{"commit to applied", "new instances", "drift repair", "at rest", "operation overhead", "durable writes", "lists", "start", "rollout", "replicas"}
	return slices.SortedStableFunc(slices.Values(p.headlines), func(a, b headline) int {
		return slices.Index(kinds, a.kind) - slices.Index(kinds, b.kind)
	})
}

// cell is a text in a table.
func cell(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "|", "\\|") }

// The picture's measures, in its own units.
const (
	pictureText  = 430 // width of the names
	pictureLimit = 240 // width up to the limit
	pictureRow   = 20
)

// picture is a bar for each latency that has a limit, "" where there is none. A bar that is longer
// than twice the limit is cut there.
func (p *page) picture() string {
	var bars strings.Builder
	n := 0
	for _, s := range p.sections {
		for _, e := range s.rows {
			if e.share == 0 {
				continue
			}
			y := 24 + n*pictureRow
			class := "met"
			if !e.met {
				class = "missed"
			}
			width := max(1, min(2, e.share)*pictureLimit)
			fmt.Fprintf(&bars, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text><rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.0f\" height=\"12\"/><text x=\"%.0f\" y=\"%d\">%s</text>\n",
				pictureText, y+10, html.EscapeString(strings.TrimSpace(e.name)), class, pictureText+8, y, width, pictureText+14+width, y+10, html.EscapeString(e.measured[:max(0, strings.Index(e.measured, ","))]))
			n++
		}
	}
	if n == 0 {
		return ""
	}
	height := 24 + n*pictureRow + 8
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11">
<style>text{fill:#222}.met{fill:#2a7d4f}.missed{fill:#b3261e}line{stroke:#666}@media(prefers-color-scheme:dark){text{fill:#ddd}.met{fill:#5fc08d}.missed{fill:#ff8a80}line{stroke:#999}}</style>
<text x="%d" y="14" text-anchor="middle">limit</text><line x1="%d" x2="%d" y1="18" y2="%d" stroke-dasharray="3 3"/>
%s</svg>
`, pictureText+2*pictureLimit+120, height, pictureText+8+pictureLimit, pictureText+8+pictureLimit, pictureText+8+pictureLimit, height-4, bars.String())
}
