// Package manifest makes the Kubernetes objects of a VNF instance of the manifests in its
// packages: container updates laid on them, named for the instance's generation, labelled,
// with the number of units that the VNFD gives. It also knows what is to be known of kinds
// and objects without a cluster: the order of kinds, keys, labels, the pods of a workload,
// what can't be changed in an object, which changes of a package are possible.
//
// It is pure: it has no client, and reads nothing but the files of packages. Errors that a
// user can do something about are a [*drivers.RefusedError].
package manifest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// paramFiles is the additionalParam that lists the manifests, in order.
const paramFiles = "lcm-kubernetes-def-files"

// maxManifest is the size in bytes beyond which a manifest file is refused; an
// API server refuses objects above 3 MiB.
const maxManifest = 16 << 20

// manifest is one object as the package has it. It is shared and never altered.
type manifest struct {
	file  string // "Files/kubernetes/a.yaml"
	where string // "Files/kubernetes/a.yaml, document 2"
	line  int    // where the document begins, from 1
	gk    schema.GroupKind
	name  string // without a generation's suffix; where it stands, of a posted one without a name
	obj   *unstructured.Unstructured
	// config is the content of the maps that its pods use and that container
	// updates changed; nil where there are none.
	config []byte
	// stale, of a Pod, is the content that doesn't reach its containers unless it is
	// made anew.
	stale []byte
	// written is a Job as the package has it, where obj refers to other names: it is
	// the same Job in every generation, and isn't run again.
	written *unstructured.Unstructured
}

// id names an object among the manifests of a package, which all end up in one
// namespace.
type id struct {
	gk   schema.GroupKind
	name string
}

func (m manifest) id() id { return id{m.gk, m.name} }

// String is the object as people read it.
func (i id) String() string { return i.gk.Kind + " " + i.name }

// definitionFiles are the paths of the manifests: those that the parameter
// names, else every YAML file under Files/kubernetes.
func definitionFiles(params map[string]any, pkg *vnfd.Package) ([]string, error) {
	refuse := func(format string, args ...any) ([]string, error) {
		return nil, &drivers.RefusedError{Field: "params." + paramFiles, Reason: fmt.Sprintf(format, args...)}
	}
	value, given := params[paramFiles]
	if !given {
		files, err := manifestFiles(pkg)
		if err == nil && len(files) == 0 {
			return refuse("the package has no manifests under Files/kubernetes: name them here")
		}
		return files, err
	}
	var files []string
	switch list := value.(type) {
	case []string:
		files = list
	case []any:
		for _, x := range list {
			s, ok := x.(string)
			if !ok {
				return refuse("must be a list of paths in the package; %v is none", x)
			}
			files = append(files, s)
		}
	default:
		return refuse("must be a list of paths in the package")
	}
	if len(files) == 0 {
		return refuse("names no manifest")
	}
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f] {
			return refuse("names %s twice", f)
		}
		seen[f] = true
		if !fs.ValidPath(f) {
			return refuse("%q is not a path in the package", f)
		}
		if !hasFile(pkg, f) {
			return refuse("the package has no file %s; see its Files/kubernetes folder", f)
		}
	}
	return files, nil
}

// manifestFiles are the YAML files under Files/kubernetes, by name.
func manifestFiles(pkg *vnfd.Package) ([]string, error) {
	var files []string
	for _, pattern := range []string{"Files/kubernetes/*.yaml", "Files/kubernetes/*.yml"} {
		found, err := fs.Glob(pkg.Files, pattern)
		if err != nil {
			return nil, fmt.Errorf("list the package's manifests: %w", err)
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	return files, nil
}

// listed says whether the parameters list the manifests.
func listed(params map[string]any) bool {
	_, given := params[paramFiles]
	return given
}

// hasFile says whether the package has a file, and no folder, at the path.
func hasFile(pkg *vnfd.Package, file string) bool {
	info, err := fs.Stat(pkg.Files, file)
	return err == nil && info.Mode().IsRegular()
}

// readManifests parses the files into objects, lists expanded, in order.
func readManifests(pkg *vnfd.Package, files []string) ([]manifest, error) {
	var all []manifest
	for _, file := range files {
		content, err := readFile(pkg.Files, file)
		if err != nil {
			return nil, err
		}
		found, err := parseManifests(file, content)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func readFile(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, fmt.Errorf("read manifest %s: %w", name, err)
	}
	if len(content) > maxManifest {
		return nil, &drivers.RefusedError{Object: name, Reason: fmt.Sprintf("is larger than %d MiB", maxManifest>>20)}
	}
	return content, nil
}

// parseManifests parses one file of YAML documents. Errors are [*drivers.RefusedError]
// that name file and document.
func parseManifests(file string, content []byte) ([]manifest, error) {
	var all []manifest
	err := eachDocument(file, content, func(d document) error {
		found, err := d.manifests()
		all = append(all, found...)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// document is one YAML document of a file.
type document struct {
	file   string
	number int // from 1
	line   int // where it begins, from 1
	text   []byte
}

func (d document) where() string { return fmt.Sprintf("%s, document %d", d.file, d.number) }

func (d document) refuse(format string, args ...any) error {
	return &drivers.RefusedError{Object: d.where(), Reason: fmt.Sprintf(format, args...)}
}

// eachDocument calls fn for the documents of a file, until one is refused.
func eachDocument(file string, content []byte, fn func(document) error) error {
	docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	d := document{file: file, line: 1}
	for {
		text, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		d.number, d.text = d.number+1, text
		if err != nil {
			return d.refuse("can't be read: %v", err)
		}
		if err := fn(d); err != nil {
			return err
		}
		d.line += bytes.Count(text, []byte("\n")) + 1 // the separator
	}
}

// manifests are the objects in the document, lists expanded.
func (d document) manifests() ([]manifest, error) {
	data, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.refuse("is not valid YAML: %v", err)
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return nil, nil
	}
	var content any
	if err := yamlToObject(data, &content); err != nil {
		return nil, d.refuse("is not a Kubernetes object: %v", err)
	}
	object, ok := content.(map[string]any)
	if !ok {
		return nil, d.refuse("is not a Kubernetes object but %s", jsonKind(content))
	}

	u := &unstructured.Unstructured{Object: object}
	if isEmptyList(u) {
		return nil, nil
	}
	if !u.IsList() {
		m, err := check(d.file, strconv.Itoa(d.number), d.where(), u)
		if err != nil {
			return nil, err
		}
		m.line = d.line
		return []manifest{m}, nil
	}

	var all []manifest
	item := 0
	err = u.EachListItem(func(x runtime.Object) error {
		item++
		one := x.(*unstructured.Unstructured)
		inheritKind(one, u)
		m, err := check(d.file, fmt.Sprintf("%d.%d", d.number, item), fmt.Sprintf("%s, item %d", d.where(), item), one)
		m.line = d.line
		all = append(all, m)
		return err
	})
	if _, refused := errors.AsType[*drivers.RefusedError](err); err != nil && !refused {
		err = d.refuse("is not a list of Kubernetes objects: %v", err)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

// jsonKind is the kind of a value that is no mapping, as people call it.
func jsonKind(v any) string {
	switch v.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "a boolean"
	}
	return "a number"
}

// isEmptyList reports whether the object is a list whose items are null, as a template leaves
// it that has none: kubectl takes it for an empty list.
func isEmptyList(u *unstructured.Unstructured) bool {
	items, ok := u.Object["items"]
	return ok && items == nil && strings.HasSuffix(u.GetKind(), "List")
}

// inheritKind gives an item of a list of one kind (RoleList) that kind, where it names none, as
// kubectl does.
func inheritKind(item, list *unstructured.Unstructured) {
	kind, ok := strings.CutSuffix(list.GetKind(), "List")
	if ok && kind != "" && item.Object["kind"] == nil && item.Object["apiVersion"] == nil {
		item.Object["kind"], item.Object["apiVersion"] = kind, list.GetAPIVersion()
	}
}

// check refuses what can't be an object, and normalises the rest. place is that of the object
// in the file: its document and item, by number.
func check(file, place, where string, u *unstructured.Unstructured) (manifest, error) {
	refuse := func(format string, args ...any) (manifest, error) {
		return manifest{}, &drivers.RefusedError{Object: where, Reason: fmt.Sprintf(format, args...)}
	}
	version, _, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil || version == "" {
		return refuse("has no apiVersion")
	}
	kind, _, err := unstructured.NestedString(u.Object, "kind")
	if err != nil || kind == "" {
		return refuse("has no kind")
	}
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return refuse("apiVersion %q is malformed", version)
	}
	gk := gv.WithKind(kind).GroupKind()
	settleNulls(u.Object, gv.WithKind(kind))
	anonymous := InfoOf(gk).Posted && gk != KindEviction && gk != KindBinding
	if u.Object["metadata"] == nil && anonymous {
		delete(u.Object, "metadata")
	} else if _, ok := u.Object["metadata"].(map[string]any); !ok {
		return refuse("%s has no metadata", kind)
	}
	name, given, err := unstructured.NestedString(u.Object, "metadata", "name")
	switch {
	case err == nil && !given && anonymous:
		name = file + "#" + place
	case err != nil || name == "":
		return refuse("%s has no metadata.name; a generated name can't be found again", kind)
	default:
		if errs := content.IsPathSegmentName(name); len(errs) > 0 {
			return refuse("%s has metadata.name %q, which %s", kind, name, strings.Join(errs, ", "))
		}
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(u.Object, "metadata", field); err != nil {
			return refuse("%s %s: metadata.%s must map strings to strings (quote numbers and booleans)", kind, name, field)
		}
	}
	if _, _, err := unstructured.NestedString(u.Object, "metadata", "namespace"); err != nil {
		return refuse("%s %s: metadata.namespace must be a string", kind, name)
	}
	normalise(u, gk)
	return manifest{file: file, where: where, gk: gk, name: name, obj: u}, nil
}
