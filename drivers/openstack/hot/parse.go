package hot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"go.yaml.in/yaml/v3"
)

// Limits of a flavour's templates.
const (
	maxFile  = 512 << 10 // bytes of one, which is what Heat takes
	maxFiles = 100
	// maxResources bounds those of one template, whose references to each other are followed.
	maxResources = 2000
	// maxUnfolded bounds the resources with each nested file counted as often as it is used. Heat
	// takes 1,000 in a stack if its operator doesn't say otherwise.
	maxUnfolded = 10_000
	// maxUnfoldedSize bounds the bytes of templates, counted likewise: each VDU gets files of its own.
	maxUnfoldedSize = 64 << 20
)

// Types of resources that the package treats in a special way.
const (
	typeServer = "OS::Nova::Server"
	typeGroup  = "OS::Heat::AutoScalingGroup"
)

// Folder is the templates of one deployment flavour, read and checked.
type Folder struct {
	// Dir is where they are in the package: "BaseHOT/simple".
	Dir   string
	files fs.FS
	top   *template
	// byFile are all templates that were read, texts the files of get_file, by path.
	byFile map[string]*template
	texts  map[string]string
	names  map[string]string // of the texts among the files of a body
	reads  int               // of templates and texts
}

// template is one file.
type template struct {
	file string
	size int
	root *yaml.Node
	tree map[string]any
	// nested are the paths of files by the resource types that name them, texts those by the
	// arguments of get_file.
	nested, texts map[string]string
}

// at is the line of the value under the keys, or of the nearest one above it.
func (t *template) at(keys ...string) int {
	for i := len(keys); i > 0; i-- {
		for k := range safeyaml.Pairs(safeyaml.Get(t.root, keys[:i-1]...)) {
			if k.Value == keys[i-1] {
				return k.Line
			}
		}
	}
	return 0
}

func (t *template) fail(keys []string, format string, args ...any) error {
	return &Error{t.file, t.at(keys...), fmt.Sprintf(format, args...)}
}

func (t *template) resources() map[string]any { return section(t.tree, "resources") }

// Parse reads BaseHOT/<flavour> of a package: the top template is the first of the folder's
// *.yaml, by name, that no other one uses. Parse reads the files that templates name, too:
// beside the template, in the folder, or in its nested/. It returns an [*Error] for what is wrong
// in a file, and an error that wraps [fs.ErrNotExist] where the flavour has no such folder.
func Parse(files fs.FS, flavour string) (*Folder, error) {
	dir := path.Join("BaseHOT", flavour)
	if !fs.ValidPath(dir) || path.Dir(dir) != "BaseHOT" {
		return nil, &Error{"BaseHOT", 0, fmt.Sprintf("flavour %.80q can't be the name of a folder", flavour)}
	}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	f := &Folder{Dir: dir, files: files, byFile: map[string]*template{}, texts: map[string]string{}, names: map[string]string{}}
	var names []string
	for _, e := range entries {
		if !e.IsDir() && isTemplate(e.Name()) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(names)
	used := map[string]bool{}
	for _, name := range names {
		t, err := f.load(name, nil)
		if err != nil {
			return nil, err
		}
		for _, target := range t.nested {
			used[target] = true
		}
	}
	for _, name := range names {
		if !used[name] {
			f.top = f.byFile[name]
			break
		}
	}
	if f.top == nil {
		return nil, &Error{dir, 0, "holds no top template: put it there as a *.yaml file that no other one uses"}
	}
	if err := f.bounded(); err != nil {
		return nil, err
	}
	return f, nil
}

// bounded refuses what would take for ever to render.
func (f *Folder) bounded() error {
	all := f.unfolded(f.top, map[string]extent{})
	if all.resources > maxUnfolded {
		return &Error{f.top.file, 0, fmt.Sprintf("makes more than %d resources with its nested files, each counted as often as it is used: use them less", maxUnfolded)}
	}
	if all.size > maxUnfoldedSize {
		return &Error{f.top.file, 0, fmt.Sprintf("has more than %d bytes with its nested files, each counted as often as it is used: make them smaller", maxUnfoldedSize)}
	}
	return nil
}

// extent is what a template makes with its nested files, each counted as often as it is used, or
// more than the bounds.
type extent struct{ resources, size int }

// unfolded is the extent of a template. seen are those of files.
func (f *Folder) unfolded(t *template, seen map[string]extent) extent {
	if all, known := seen[t.file]; known {
		return all
	}

	all := extent{len(t.resources()), t.size}
	for name := range t.resources() {
		for _, kind := range typesIn(resourceOf(t.resources(), name)) {
			if target := t.nested[kind]; target != "" {
				below := f.unfolded(f.byFile[target], seen)
				all.resources = min(all.resources+below.resources, maxUnfolded+1)
				all.size = min(all.size+below.size, maxUnfoldedSize+1)
			}
		}
	}
	seen[t.file] = all

	return all
}

func isTemplate(name string) bool {
	ext := path.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// load reads a template and the files that it names. chain are the templates above it.
func (f *Folder) load(name string, chain []string) (*template, error) {
	if i := slices.Index(chain, name); i >= 0 {
		return nil, &Error{name, 0, "uses itself: " + strings.Join(append(slices.Clone(chain[i:]), name), " -> ")}
	}
	if t := f.byFile[name]; t != nil {
		return t, nil
	}
	data, err := f.read(name)
	if err != nil {
		return nil, err
	}
	t, err := parseTemplate(name, data)
	if err != nil {
		return nil, err
	}
	chain = append(slices.Clip(chain), name)
	if err := f.follow(t, chain); err != nil {
		return nil, err
	}
	f.byFile[name] = t
	return t, nil
}

func (f *Folder) read(name string) ([]byte, error) {
	if f.reads++; f.reads > maxFiles {
		return nil, &Error{f.Dir, 0, fmt.Sprintf("leads to more than %d files", maxFiles)}
	}
	file, err := f.files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case len(data) > maxFile:
		return nil, &Error{name, 0, fmt.Sprintf("has more than %d bytes, and Heat takes no more: make it smaller", maxFile)}
	case !utf8.Valid(data):
		return nil, &Error{name, 0, "isn't UTF-8 text: encode it (base64)"}
	}
	return data, nil
}

// follow reads the files that the template's resource types and get_file name.
func (f *Folder) follow(t *template, chain []string) error {
	for _, name := range sorted(t.resources()) {
		for _, kind := range typesIn(resourceOf(t.resources(), name)) {
			if !isTemplate(kind) && !strings.Contains(kind, "://") {
				continue
			}
			target, err := f.find(t, kind, "resources", name)
			if err != nil {
				return err
			}
			if _, err := f.load(target, chain); err != nil {
				return err
			}
			t.nested[kind] = target
		}
	}
	var wrong error
	visit(t.tree, func(function string, arg any) {
		if function != "get_file" || wrong != nil {
			return
		}
		name, ok := arg.(string)
		if !ok {
			wrong = t.fail(nil, "get_file must name a file")
			return
		}
		target, err := f.find(t, name)
		if err != nil {
			wrong = err
			return
		}
		if _, known := f.texts[target]; !known {
			data, err := f.read(target)
			if err != nil {
				wrong = err
				return
			}
			f.texts[target], f.names[target] = string(data), named(target, string(data))
		}
		t.texts[name] = target
	})
	return wrong
}

// typesIn are the type of a resource, and that of what it makes copies of.
func typesIn(resource map[string]any) []string {
	kinds := []string{typeOf(resource)}
	for _, key := range []string{"resource", "resource_def"} {
		if s := typeOf(section(section(resource, "properties"), key)); s != "" {
			kinds = append(kinds, s)
		}
	}
	return kinds
}

// find is the path of a file that a template names.
func (f *Folder) find(t *template, name string, keys ...string) (string, error) {
	if strings.Contains(name, "://") {
		return "", t.fail(keys, "%.200s would be fetched from elsewhere: put the file into the package", name)
	}
	for _, dir := range []string{path.Dir(t.file), f.Dir, path.Join(f.Dir, "nested")} {
		target := path.Join(dir, name)
		if path.IsAbs(name) || !fs.ValidPath(target) || !strings.HasPrefix(target, f.Dir+"/") {
			continue
		}
		st, err := fs.Stat(f.files, target)
		if err == nil && st.Mode().IsRegular() {
			return target, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read %s: %w", target, err)
		}
	}
	return "", t.fail(keys, "names the file %.200s, which is neither beside it nor in %s/nested", name, f.Dir)
}

// version is the form of heat_template_version: a date, or a release since Newton.
var version = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}|[a-z]+)$`)

// The keys of HOT. Heat ignores none that it doesn't know, so that a typing error is
// found here.
var (
	keysOfTemplate = []string{"heat_template_version", "description", "parameter_groups", "parameters", "resources", "outputs", "conditions"}
	keysOfResource = []string{"type", "description", "properties", "metadata", "depends_on", "update_policy", "deletion_policy", "external_id", "condition"}
)

func parseTemplate(name string, data []byte) (*template, error) {
	docs, err := safeyaml.Parse(data)
	if bad, ok := errors.AsType[*safeyaml.Error](err); ok {
		return nil, &Error{name, bad.Line, bad.Message}
	}
	if len(docs) != 1 || docs[0].Kind != yaml.MappingNode {
		return nil, &Error{name, 0, "must hold one YAML document that is a mapping"}
	}
	d := &decoder{file: name}
	v, err := d.value(docs[0])
	if err != nil {
		return nil, err
	}
	t := &template{file: name, size: len(data), root: docs[0], tree: v.(map[string]any), nested: map[string]string{}, texts: map[string]string{}}
	if s, ok := t.tree["heat_template_version"].(string); !ok || !version.MatchString(s) {
		return nil, t.fail([]string{"heat_template_version"}, "heat_template_version is missing or no version: give one, as 2021-04-16")
	}
	for _, key := range sorted(t.tree) {
		if !slices.Contains(keysOfTemplate, key) {
			return nil, t.fail([]string{key}, "%.80s isn't a section of a Heat template: they are %s", key, strings.Join(keysOfTemplate, ", "))
		}
		switch t.tree[key].(type) {
		case nil:
			delete(t.tree, key)
		case map[string]any:
		default:
			if key == "parameters" || key == "resources" || key == "outputs" || key == "conditions" {
				return nil, t.fail([]string{key}, "%s must be a mapping", key)
			}
		}
	}
	if n := len(t.resources()); n > maxResources {
		return nil, t.fail([]string{"resources"}, "has %d resources, and at most %d are read of one template: put some into another one", n, maxResources)
	}
	for _, id := range sorted(t.resources()) {
		r := resourceOf(t.resources(), id)
		at := []string{"resources", id}
		if typeOf(r) == "" {
			return nil, t.fail(at, "resource %.80s must be a mapping with a type", id)
		}
		for _, key := range sorted(r) {
			if !slices.Contains(keysOfResource, key) {
				return nil, t.fail(append(at, key), "resource %.80s has %.80s, which no resource has: they have %s", id, key, strings.Join(keysOfResource, ", "))
			}
			if r[key] == nil {
				delete(r, key)
			}
		}
		if _, ok := r["properties"].(map[string]any); r["properties"] != nil && !ok {
			return nil, t.fail(append(at, "properties"), "the properties of resource %.80s must be a mapping", id)
		}
	}
	return t, checkParameters(t)
}
