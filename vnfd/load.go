package vnfd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// The limits of one VNFD. Real ones have a hundredth of that; the limits keep the work of
// reading a VNFD in proportion to its size.
const (
	maxDefinitions = 256     // files that imports reach
	maxTotal       = 8 << 20 // bytes of all of them
	maxTemplates   = 5000    // node templates in a file, types in all
	maxScaling     = 200     // VDUs, aspects or instantiation levels of a flavour
)

// Load reads the package whose root is files. For a package that can't be used it returns
// an [*InvalidError] with every problem found; another error means that files
// couldn't be read. It doesn't check the content of artifacts: see [VerifyArtifacts]. The
// caller sets Tree.
func Load(files fs.FS) (*Package, error) {
	p, problems, err := Check(files)
	if err != nil {
		return nil, err
	}
	problems = slices.DeleteFunc(problems, func(p Problem) bool { return p.Severity != Error })
	if len(problems) > 0 {
		return nil, &InvalidError{problems}
	}
	return p, nil
}

// Check is [Load] for an author: it returns warnings too, and as much as could be read of a
// package with problems. Its error means that files couldn't be read.
func Check(files fs.FS) (*Package, []Problem, error) {
	meta, problems, err := readMeta(files)
	if err != nil {
		return nil, nil, fmt.Errorf("read package: %w", err)
	}
	l := &loader{files: files, problems: problems, state: map[string]visit{}, types: map[string]*typeDef{}, policyTypes: map[string]*typeDef{}}
	p := &Package{Files: files}
	if meta != nil {
		before := len(l.problems)
		seen := map[string]bool{}
		for _, a := range meta.Artifacts {
			if !seen[a.Path] {
				seen[a.Path] = true
				p.Artifacts = append(p.Artifacts, a.Path)
			}
		}
		if meta.Entry != "" {
			l.load(meta.Entry, MetaFile, meta.entryLine, nil)
			if l.err != nil {
				return nil, nil, fmt.Errorf("read package: %w", l.err)
			}
			l.checkTypes(l.types, "node type")
			l.checkTypes(l.policyTypes, "policy type")
			p.definitions = map[string]bool{}
			for name := range l.state {
				p.definitions[name] = true
			}
			if len(l.problems) > before {
				// Without a file or a type, most further problems would be consequences of that.
				return p, SortProblems(l.problems), nil
			}
			p.VNFD = l.vnfd(meta.Entry)
			p.Images = l.images()
			if l.err != nil {
				return nil, nil, fmt.Errorf("read package: %w", l.err)
			}
		}
	}
	return p, SortProblems(l.problems), nil
}

// Unused returns the YAML files in the directories of the VNFD that nothing imports, sorted.
// The files of SOL001 itself are not among them.
func (p *Package) Unused() []string {
	var unused []string
	dirs := map[string]bool{}
	for name := range p.definitions {
		dirs[path.Dir(name)] = true
	}
	for dir := range dirs {
		entries, err := fs.ReadDir(p.Files, dir)
		if err != nil {
			continue // a directory that can't be read is reported elsewhere
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			ext := path.Ext(name)
			if e.IsDir() || ext != ".yaml" && ext != ".yml" || p.definitions[name] || standard.MatchString(e.Name()) {
				continue
			}
			unused = append(unused, name)
		}
	}
	slices.Sort(unused)
	return unused
}

// HasArtifact says whether TOSCA.meta or the manifest lists the path.
func (p *Package) HasArtifact(name string) bool { return slices.Contains(p.Artifacts, name) }

// loader gathers the definitions that the entry reaches.
type loader struct {
	files       fs.FS
	problems    []Problem
	err         error // files couldn't be read
	state       map[string]visit
	size        int          // bytes of the files read
	docs        []definition // imported before importing
	types       map[string]*typeDef
	policyTypes map[string]*typeDef
}

type visit int

const (
	loading visit = 1 + iota
	loaded
)

// definition is one TOSCA service template.
type definition struct {
	file string
	root *yaml.Node
}

func (l *loader) fail(file string, n *yaml.Node, format string, args ...any) {
	l.note(Error, file, n, format, args)
}

func (l *loader) warn(file string, n *yaml.Node, format string, args ...any) {
	l.note(Warning, file, n, format, args)
}

// maxProblems is how many problems of a hostile package are reported.
const maxProblems = 100

func (l *loader) note(s Severity, file string, n *yaml.Node, format string, args []any) {
	if s == Warning && len(l.problems) >= maxProblems/2 || len(l.problems) >= maxProblems {
		return
	}
	for i, a := range args {
		if text, ok := a.(string); ok {
			args[i] = clip(text)
		}
	}
	l.problems = append(l.problems, Problem{file, line(n), fmt.Sprintf(format, args...), s})
}

func (l *loader) errors() (n int) {
	for _, p := range l.problems {
		if p.Severity == Error {
			n++
		}
	}
	return n
}

// clip shortens a text that is quoted from a package.
func clip(s string) string {
	const most = 400
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func line(n *yaml.Node) int {
	if n == nil {
		return 0
	}
	return n.Line
}

// standard matches the files of SOL001 itself. Jibe knows their types, so they need not be in
// the package.
var standard = regexp.MustCompile(`^etsi_nfv_sol001_[a-z0-9]+_types([-_.0-9v]*)\.ya?ml$`)

// load reads one definition and, before it, its imports. by and at are the file and line
// that import it, chain the files on the way from the entry.
func (l *loader) load(file, by string, at int, chain []string) {
	if l.err != nil || l.state[file] == loaded {
		return
	}
	importer := &yaml.Node{Line: at}
	if l.state[file] == loading {
		i := slices.Index(chain, file)
		l.fail(by, importer, "imports go in a circle: %s", strings.Join(append(slices.Clone(chain[i:]), file), " -> "))
		return
	}
	if len(l.state) >= maxDefinitions {
		l.fail(by, importer, "more than %d files are imported", maxDefinitions)
		return
	}
	l.state[file] = loading
	defer func() { l.state[file] = loaded }()
	data, err := readFile(l.files, file)
	unusable, isFile := errors.AsType[*fileError](err)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.fail(by, importer, "%s isn't in the package", file)
		return
	case isFile:
		l.fail(file, nil, "%s", unusable.message)
		return
	case err != nil:
		l.err = err
		return
	}
	if l.size += len(data); l.size > maxTotal {
		l.fail(file, nil, "the files of the VNFD have more than %d bytes in all", maxTotal)
		return
	}
	docs, err := safeyaml.Parse(data)
	if bad, ok := errors.AsType[*safeyaml.Error](err); ok {
		l.problems = append(l.problems, Problem{file, bad.Line, bad.Message, Error})
		return
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		l.fail(file, nil, "must hold one YAML document that is a mapping")
		return
	}
	root := docs[0]
	chain = append(slices.Clip(chain), file)
	for n := range safeyaml.Items(l.list(file, root, "imports")) {
		l.imported(file, n, chain)
	}
	l.declare(l.types, "node type", file, l.mapping(file, root, "node_types"))
	l.declare(l.policyTypes, "policy type", file, l.mapping(file, root, "policy_types"))
	l.docs = append(l.docs, definition{file, root})
}

// imported follows one entry of imports, in any of TOSCA's notations: a name;
// {file: name}; {label: name}; {label: {file: name}}.
func (l *loader) imported(file string, n *yaml.Node, chain []string) {
	name, ok := safeyaml.Text(n)
	if !ok {
		name, ok = safeyaml.Text(safeyaml.Get(n, "file"))
	}
	if !ok && n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		for _, v := range safeyaml.Pairs(n) {
			if name, ok = safeyaml.Text(v); !ok {
				name, ok = safeyaml.Text(safeyaml.Get(v, "file"))
			}
		}
	}
	if !ok {
		l.fail(file, n, "an import must be the name of a file")
		return
	}
	if standard.MatchString(path.Base(name)) {
		return
	}
	if strings.Contains(name, "://") {
		l.fail(file, n, "import %q would be fetched from a network: put the file into the package", name)
		return
	}
	target := path.Join(path.Dir(file), name)
	if path.IsAbs(name) || !fs.ValidPath(target) || strings.ContainsAny(target, "\\\x00") {
		l.fail(file, n, "import %q leaves the package", name)
		return
	}
	l.load(target, file, n.Line, chain)
}

// mapping returns the mapping under the keys, nil where there is none, and notes a problem
// when there is something else.
func (l *loader) mapping(file string, n *yaml.Node, keys ...string) *yaml.Node {
	return l.kind(file, n, yaml.MappingNode, "a mapping", keys)
}

// list does the same as mapping for sequences.
func (l *loader) list(file string, n *yaml.Node, keys ...string) *yaml.Node {
	return l.kind(file, n, yaml.SequenceNode, "a list", keys)
}

func (l *loader) kind(file string, n *yaml.Node, kind yaml.Kind, what string, keys []string) *yaml.Node {
	for i, key := range keys {
		n = safeyaml.Get(n, key)
		if safeyaml.Null(n) {
			return nil
		}
		want, name := yaml.MappingNode, "a mapping"
		if i == len(keys)-1 {
			want, name = kind, what
		}
		if n.Kind != want {
			// An empty list stands for "nothing" in many published VNFDs.
			if n.Kind != yaml.SequenceNode || len(n.Content) > 0 {
				l.fail(file, n, "%s must be %s", strings.Join(keys[:i+1], "."), name)
			}
			return nil
		}
	}
	return n
}

// text returns the scalar under the keys, and notes a problem when there is something else.
func (l *loader) text(file string, n *yaml.Node, keys ...string) string {
	n = safeyaml.Get(n, keys...)
	if safeyaml.Null(n) {
		return ""
	}
	s, ok := safeyaml.Text(n)
	if !ok {
		l.fail(file, n, "%s must be a text", strings.Join(keys, "."))
	}
	return s
}

// maxNumber bounds numbers of instances and levels, so that no sum overflows.
const maxNumber = 1_000_000

// number returns the whole number under the keys, and whether there is one.
func (l *loader) number(file string, n *yaml.Node, keys ...string) (int, bool) {
	n = safeyaml.Get(n, keys...)
	if safeyaml.Null(n) {
		return 0, false
	}
	var i int
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&i) != nil || i < 0 || i > maxNumber {
		got, _ := safeyaml.Text(n)
		l.fail(file, n, "%s must be a whole number within 0..%d, not %.40q", strings.Join(keys, "."), maxNumber, got)
		return 0, false
	}
	return i, true
}
