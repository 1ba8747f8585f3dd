package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// folder is where packages have their manifests.
const folder = "Files/kubernetes"

// Validate returns what is wrong with the manifests of a package, for its author, by the
// functions that render instances of it. An error is a file that applies to an instance that
// names no manifests and that is refused in each instance. What only some instances meet is a
// warning. The package's VNFD may be nil where it can't be read.
func Validate(pkg *vnfd.Package) []vnfd.Problem {
	v := &validator{pkg: pkg}
	files, err := v.files()
	if err != nil {
		v.note(vnfd.Error, folder, 0, "%v", err)
		return v.problems
	}

	for _, f := range files {
		v.file(f)
	}
	if len(v.named) > 0 && len(v.applied) == 0 {
		v.note(vnfd.Warning, folder, 0, "no .yaml or .yml file stands directly in it: an instance must name its manifests in params.%s", paramFiles)
	}
	v.vdus()
	v.render()
	return v.problems
}

// validator gathers the problems of one package.
type validator struct {
	pkg      *vnfd.Package
	problems []vnfd.Problem
	applied  []string   // files that apply where an instance names none
	all      []manifest // that they hold
	named    []manifest // of files that apply only where an instance names them
}

func (v *validator) note(s vnfd.Severity, file string, line int, format string, args ...any) {
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: s})
}

func (v *validator) failed() bool {
	return slices.ContainsFunc(v.problems, func(p vnfd.Problem) bool { return p.Severity == vnfd.Error })
}

// files are all that look like manifests, and in applied those that apply by themselves.
func (v *validator) files() (files []string, err error) {
	if v.applied, err = manifestFiles(v.pkg); err != nil {
		return nil, err
	}
	err = fs.WalkDir(v.pkg.Files, folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && !slices.Contains(v.applied, name) {
			return err
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name))) {
			files = append(files, name)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // a VNF of servers, or of a Helm chart
	}
	return files, err
}

// file judges one file.
func (v *validator) file(name string) {
	applies := slices.Contains(v.applied, name)
	refused := func(line int, format string, args ...any) {
		if applies {
			v.note(vnfd.Error, name, line, format, args...)
		} else {
			v.note(vnfd.Warning, name, line, "an instance that names it in params.%s is refused: %s", paramFiles, fmt.Sprintf(format, args...))
		}
	}

	content, err := readFile(v.pkg.Files, name)
	if err != nil {
		refused(0, "%s", within(name, err))
		return
	}
	var found []manifest
	sound := true
	err = eachDocument(name, content, func(d document) error {
		objects, err := d.manifests()
		if err != nil {
			sound = false
			refused(d.lineOf(err), "%s", within(name, err))
		}
		if second := d.second(); err == nil && second > 0 {
			v.note(vnfd.Warning, name, second, "stands behind the end of a document (...) and isn't read: separate documents by ---")
		}
		found = append(found, objects...)
		return nil
	})
	if err == nil && sound {
		err = objects(found)
	}
	switch {
	case err != nil:
		refused(lineOf(found, err), "%s", within(name, err))
	case !sound:
	case len(found) == 0:
		v.note(vnfd.Warning, name, 0, "holds no Kubernetes object")
	case !applies && len(v.applied) > 0:
		v.note(vnfd.Warning, name, 0, "applies only where an instance names it in params.%s: it isn't a .yaml or .yml file directly in %s", paramFiles, folder)
	}

	for _, m := range found {
		if m.gk == kindSecret && m.obj.Object["data"] != nil {
			v.note(vnfd.Warning, name, m.line, "Secret %s stands here in clear: every reader of the package has it", m.name)
		}
	}
	if applies {
		v.all = append(v.all, found...)
	} else {
		v.named = append(v.named, found...)
	}
}

// objects refuses what one file can't be made objects of, whichever other files stand next to it.
func objects(found []manifest) error {
	scopes := definedScopes(found)
	if err := refuseDuplicates(found, scopes, "default"); err != nil {
		return err
	}
	mk, err := (&Renderer{}).newMaker(&desired.Instance{ID: "validate"}, found, scopes, "default", nil)
	if err != nil {
		return err
	}
	for _, m := range found {
		if _, err := mk.object(m, m.obj, nil); err != nil {
			return err
		}
	}
	return nil
}

// within is the error without the name of the file, which stands before it.
func within(file string, err error) string {
	return strings.Join(strings.Fields(strings.TrimPrefix(strings.TrimPrefix(err.Error(), file), ", ")), " ")
}

var yamlLine = regexp.MustCompile(`yaml: (?:unmarshal errors:\s+)?line (\d+)`)

// lineOf is the line of the file that the error of the document is about.
func (d document) lineOf(err error) int {
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			return d.line + n - 1
		}
	}
	return d.line
}

// lineOf is the line of the manifest that the error names.
func lineOf(found []manifest, err error) int {
	refused, ok := errors.AsType[*drivers.RefusedError](err)
	for _, m := range found {
		if ok && m.where == refused.Object {
			return m.line
		}
	}
	return 0
}

// second returns the line of what stands in the document's text behind its end, 0 where nothing
// does: tools that split files at --- alone, as kubectl does, read no further.
func (d document) second() (line int) {
	defer func() {
		if recover() != nil { // the YAML library is known to panic
			line = 0
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(d.text))
	var n yaml.Node
	if err := dec.Decode(&n); err != nil {
		return 0
	}

	switch err := dec.Decode(&n); {
	case errors.Is(err, io.EOF):
		return 0
	case err != nil: // a second document that doesn't begin with ---
		return d.lineOf(err)
	}
	return d.line + n.Line - 1
}

// vdus warns of VDUs without a workload.
func (v *validator) vdus() {
	if v.pkg.VNFD == nil || len(v.all)+len(v.named) == 0 {
		return // a VNF of servers, or of a Helm chart
	}
	for _, f := range v.pkg.VNFD.Flavours {
		_, err := fs.Stat(v.pkg.Files, path.Join("BaseHOT", f.ID))
		servers := err == nil // a VNF on two VIMs: its other VDUs are in Heat templates
		for _, vdu := range f.VDUs {
			here, there := workloads(v.all, target{name: vdu.Name}), workloads(v.named, target{name: vdu.Name})
			switch {
			case len(here) > 0:
				if kind := v.all[here[0]].gk; len(vdu.Deltas) > 0 && !IsScalable(kind) {
					v.note(vnfd.Warning, folder, 0, "VDU %s of flavour %s has a scaling aspect, but its workload %q is a %s, which can't scale: the aspect is refused", vdu.ID, f.ID, vdu.Name, kind.Kind)
				}
			case len(there) > 0 && len(v.applied) == 0:
			case len(there) > 0:
				v.note(vnfd.Warning, folder, 0, "VDU %s of flavour %s: its workload %q is in %s, which applies only where an instance names it in params.%s", vdu.ID, f.ID, vdu.Name, v.named[there[0]].file, paramFiles)
			case !servers:
				v.note(vnfd.Warning, folder, 0, "VDU %s of flavour %s: no Pod, Deployment, ReplicaSet, StatefulSet or DaemonSet has metadata.name %q", vdu.ID, f.ID, vdu.Name)
			}
		}
	}
}

// render warns of flavours in which an instance that gives no parameters is refused. Others may
// name some of the manifests, or a namespace, and not be.
func (v *validator) render() {
	if v.pkg.VNFD == nil || len(v.applied) == 0 || v.failed() {
		return
	}
	r := NewRenderer(nil)
	pkg := *v.pkg
	pkg.Tree = "" // nothing is remembered
	for _, f := range pkg.VNFD.Flavours {
		in := &desired.Instance{ID: "validate", VnfdID: pkg.VNFD.ID, Flavour: f.ID}
		if _, err := r.Render(drivers.Source{Instance: in, Package: &pkg}); err != nil {
			v.note(vnfd.Warning, folder, 0, "an instance of flavour %s without params.%s and params.%s is refused: %v", f.ID, paramFiles, ParamNamespace, err)
		}
	}
}
