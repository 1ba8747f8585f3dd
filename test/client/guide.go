package client

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// guideFile is the guide whose commands are run.
const guideFile = "docs/guide/openstack-client.md"

// step is what a person who follows the guide does next: writes a file, sets variables, or
// types a command.
type step struct {
	line       int
	file, text string // the file to write
	export     []string
	command    string // without "openstack"
	variable   string // that gets what the command prints
	want       string // what it prints, "…" for anything
}

var (
	fileName = regexp.MustCompile("`([a-z0-9-]+\\.(?:json|yaml))`:$")
	assigned = regexp.MustCompile(`^([A-Z_]+)=\$\(openstack (.*)\)$`)
)

// section reads the steps of one section of the guide, by its heading.
func section(t testing.TB, heading string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(process.Root(), guideFile))
	if err != nil {
		t.Fatal(err)
	}
	in, block, file := false, "", ""
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case block == "" && strings.HasPrefix(line, "#"):
			in = strings.TrimLeft(line, "# ") == heading
		case !in:
		case block == "" && strings.HasPrefix(line, "```"):
			if block = strings.TrimPrefix(line, "```"); (block == "json" || block == "yaml") && file != "" {
				steps = append(steps, step{line: i + 1, file: file})
			}
		case line == "```":
			block, file = "", ""
		case (block == "json" || block == "yaml") && file != "":
			steps[len(steps)-1].text += line + "\n"
		case block == "console":
			steps = typed(t, steps, i+1, line)
		case block == "":
			if m := fileName.FindStringSubmatch(line); m != nil {
				file = m[1]
			}
		}
	}
	if len(steps) == 0 {
		t.Fatalf("%s has no section %q with anything to do", guideFile, heading)
	}
	return steps
}

// typed adds a line of a console to the steps: a prompt begins one, what follows is printed.
func typed(t testing.TB, steps []step, number int, line string) []step {
	t.Helper()
	command, ok := strings.CutPrefix(line, "$ ")
	if !ok {
		last := &steps[len(steps)-1]
		last.want += line + "\n"
		return steps
	}
	s := step{line: number}
	if list, ok := strings.CutPrefix(command, "export "); ok {
		s.export = strings.Fields(list)
	} else if m := assigned.FindStringSubmatch(command); m != nil {
		s.variable, s.command = m[1], m[2]
	} else if s.command, ok = strings.CutPrefix(command, "openstack "); !ok {
		t.Fatalf("%s:%d: only export and openstack are known here: %s", guideFile, number, line)
	}
	return append(steps, s)
}

// reader follows the guide.
type reader struct {
	t   *testing.T
	dir string
	// real are what the guide's names stand for here: addresses, tokens, namespaces.
	real      map[string]string
	variables map[string]string
	env       []string
	// patience is how long a command is typed again that doesn't print yet what it should.
	patience time.Duration
	session  *session
}

func newReader(t *testing.T, real map[string]string) *reader {
	return &reader{t: t, dir: t.TempDir(), real: real, variables: map[string]string{}, patience: patience}
}

// here replaces the names of the guide by what they stand for.
func (r *reader) here(text string) string {
	// The longest first: one may begin as another does.
	for _, name := range slices.SortedFunc(mapKeys(r.real), func(a, b string) int { return len(b) - len(a) }) {
		text = strings.ReplaceAll(text, name, r.real[name])
	}
	return text
}

func mapKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// follow does what a section of the guide says.
func (r *reader) follow(heading string) {
	r.t.Helper()
	for _, s := range section(r.t, heading) {
		switch {
		case s.file != "":
			if err := os.WriteFile(filepath.Join(r.dir, s.file), []byte(r.here(s.text)), 0o644); err != nil {
				r.t.Fatal(err)
			}
		case s.export != nil:
			for _, v := range s.export {
				r.env = append(r.env, strings.ReplaceAll(r.here(v), `"`, ""))
			}
			if r.session != nil { // a client that runs doesn't see them
				r.session.close()
				r.session = nil
			}
		default:
			r.do(s)
		}
	}
}

// looks are commands that change nothing: they are typed again until they print what the
// guide shows.
var looks = regexp.MustCompile(`\b(list|show|versions)\b`)

// do types a command.
func (r *reader) do(s step) {
	r.t.Helper()
	if r.session == nil {
		r.session = open(r.t, r.dir, r.env)
	}
	command := r.here(s.command)
	for name, value := range r.variables {
		command = strings.ReplaceAll(command, "$"+name, value)
	}
	once := func() error {
		said, err := r.session.run(command)
		if err != nil {
			return kit.Final(fmt.Errorf("%s:%d: openstack %s: %w\n%s", guideFile, s.line, command, err, said))
		}
		if s.variable != "" {
			if r.variables[s.variable] = strings.TrimSpace(said); strings.ContainsAny(said, " \n") || said == "" {
				return kit.Final(fmt.Errorf("%s:%d: openstack %s prints no single value: %q", guideFile, s.line, command, said))
			}
		} else if !pattern(r.here(s.want)).MatchString(plain(said)) {
			err := fmt.Errorf("%s:%d: openstack %s\nprints\n%s\nand not\n%s", guideFile, s.line, command, said, r.here(s.want))
			if !looks.MatchString(command) {
				return kit.Final(err)
			}
			return err
		}
		r.t.Logf("openstack %s\n%s", command, said)
		return nil
	}
	kit.EventuallyWithin(r.t, r.patience, once)
}

var (
	wide  = regexp.MustCompile(` +`)
	rule  = regexp.MustCompile(`-{2,}`)
	anyID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
)

// vnfds begin the ids of the example packages: they alone are the same everywhere.
const vnfds = "3a5c1f0e-6d0b-4f7e-9c55-"

// plain is what was printed, whatever the widths of a table's columns are.
func plain(text string) string {
	return strings.TrimSpace(wide.ReplaceAllString(rule.ReplaceAllString(text, "--"), " "))
}

// pattern matches what the guide shows: "…" is anything, and so is the id of an instance, an
// operation or a subscription.
func pattern(want string) *regexp.Regexp {
	var parts []string
	for part := range strings.SplitSeq(plain(want), "…") {
		var out strings.Builder
		for rest := part; rest != ""; {
			at := anyID.FindStringIndex(rest)
			if at == nil {
				out.WriteString(regexp.QuoteMeta(rest))
				break
			}
			out.WriteString(regexp.QuoteMeta(rest[:at[0]]))
			if id := rest[at[0]:at[1]]; strings.HasPrefix(id, vnfds) {
				out.WriteString(id)
			} else {
				out.WriteString(anyID.String())
			}
			rest = rest[at[1]:]
		}
		parts = append(parts, out.String())
	}
	return regexp.MustCompile(`^(?s)` + strings.Join(parts, `.*`) + `$`)
}
