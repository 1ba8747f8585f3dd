package hot

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/vnfd"
)

const (
	// base is the folder with the templates of all flavours.
	base = "BaseHOT"
	// manifests is the folder of what Kubernetes runs: VDUs that are no servers may be in it.
	manifests = "Files/kubernetes"
)

// Validate returns what is wrong with the Heat templates of a package, for its author, by the
// functions that render instances of it, and by what Heat refuses without looking at the cloud:
// references to parameters and resources that a template doesn't have. An error is refused in
// each instance of the flavour at an OpenStack; what only some instances meet, or none as nothing
// uses it, is a warning, as is all that is wrong where instances may run at a Kubernetes, which
// read none of it. The package's VNFD may be nil where it can't be read.
func Validate(pkg *vnfd.Package) []vnfd.Problem {
	v := &validator{pkg: pkg}
	entries, err := fs.ReadDir(pkg.Files, base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a VNF without servers
	}
	if err != nil {
		v.note(vnfd.Error, base, 0, "%v", err)
		return v.problems
	}

	found := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() {
			found[e.Name()] = true
			v.flavour(e.Name())
		}
	}
	v.absent(found)

	return v.problems
}

// validator gathers the problems of one package.
type validator struct {
	pkg      *vnfd.Package
	problems []vnfd.Problem
	// parameters and resources are the names of those of the template whose references are judged.
	parameters, resources string
}

func (v *validator) note(s vnfd.Severity, file string, line int, format string, args ...any) {
	if v.hasManifests() {
		s = vnfd.Warning
	}
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: s})
}

// failed notes the error of a template.
func (v *validator) failed(s vnfd.Severity, dir string, err error) {
	if wrong, ok := errors.AsType[*Error](err); ok {
		v.note(s, wrong.File, wrong.Line, "%s", wrong.Message)
		return
	}
	v.note(s, dir, 0, "%v", err)
}

// flavour judges the templates of one flavour.
func (v *validator) flavour(id string) {
	dir, severity := path.Join(base, id), vnfd.Error
	flavour := v.described(id)
	if flavour == nil && v.pkg.VNFD != nil {
		severity = vnfd.Warning
		v.note(severity, dir, 0, "the VNFD has no deployment flavour %s: nothing uses these templates", id)
	}

	folder, err := Parse(v.pkg.Files, id)
	if err != nil {
		v.failed(severity, dir, err)
		return
	}
	used := folder.used()
	for _, file := range sorted(folder.byFile) {
		if used[file] {
			v.references(severity, folder.byFile[file])
		} else {
			v.references(vnfd.Warning, folder.byFile[file])
		}
	}
	if flavour == nil {
		return
	}

	in := Input{Instance: "validate", Flavour: flavour}
	places, err := folder.places(&in)
	if err != nil {
		v.failed(severity, dir, err)
		return
	}
	if _, err := folder.Render(in); err != nil {
		if _, given := errors.AsType[*givenError](err); given {
			severity = vnfd.Warning
		}
		if _, ofTemplate := errors.AsType[*Error](err); ofTemplate { // else a parameter is missing, which instances give
			v.failed(severity, dir, err)
		}
	}
	v.servers(folder, flavour, places)
}

// described is the flavour with the id, nil where the VNFD has none.
func (v *validator) described(id string) *vnfd.Flavour {
	if v.pkg.VNFD == nil {
		return nil
	}
	for i := range v.pkg.VNFD.Flavours {
		if v.pkg.VNFD.Flavours[i].ID == id {
			return &v.pkg.VNFD.Flavours[i]
		}
	}

	return nil
}

// used are the templates to which the top template leads in each instance, with itself. Heat
// doesn't read what is the type of a resource whose condition is false.
func (f *Folder) used() map[string]bool {
	used := map[string]bool{}
	due := []string{f.top.file}
	for len(due) > 0 {
		file := due[0]
		due = due[1:]
		if used[file] {
			continue
		}
		used[file] = true

		t := f.byFile[file]
		for _, name := range sorted(t.resources()) {
			r := resourceOf(t.resources(), name)
			if r["condition"] != nil {
				continue
			}
			for _, kind := range typesIn(r) {
				if target := t.nested[kind]; target != "" {
					due = append(due, target)
				}
			}
		}
	}

	return used
}

// absent warns of flavours without templates, where nothing else in the package could be what
// they run.
func (v *validator) absent(found map[string]bool) {
	if v.pkg.VNFD == nil || v.hasManifests() {
		return
	}
	for _, f := range v.pkg.VNFD.Flavours {
		if len(f.VDUs) > 0 && !found[f.ID] {
			v.note(vnfd.Warning, base, 0, "flavour %s has no templates: an instance of it at an OpenStack is refused, so put them into %s/%s", f.ID, base, f.ID)
		}
	}
}

func (v *validator) hasManifests() bool {
	_, err := fs.Stat(v.pkg.Files, manifests)
	return err == nil
}

// servers warns of VDUs without a server, or a group of servers.
func (v *validator) servers(f *Folder, flavour *vnfd.Flavour, places []place) {
	if v.hasManifests() {
		return // a VNF on two VIMs
	}
	for _, vdu := range flavour.VDUs {
		if slices.ContainsFunc(places, func(p place) bool { return p.vdu == vdu.ID }) {
			continue
		}
		more := ""
		if len(vdu.Deltas) > 0 {
			more = ", and its scaling aspect would scale nothing"
		}
		v.note(vnfd.Warning, f.top.file, 0, "VDU %s of flavour %s has no server or group here%s: call the server or its resource so", vdu.ID, flavour.ID, more)
	}
}

// pseudo are the parameters that Heat gives each template.
var pseudo = []string{"OS::stack_name", "OS::stack_id", "OS::project_id"}

// references judges what the template refers to. Heat leaves out what a condition is false of,
// and looks at outputs more kindly.
func (v *validator) references(s vnfd.Severity, t *template) {
	v.parameters, v.resources = list(sorted(section(t.tree, "parameters"))), list(sorted(t.resources()))
	for _, name := range sorted(t.resources()) {
		r := resourceOf(t.resources(), name)
		severity := s
		if r["condition"] != nil {
			severity = vnfd.Warning
		}

		at := []string{"resources", name}
		for _, target := range dependsOn(r) {
			v.resource(severity, t, at, target)
		}
		v.within(severity, t, at, r)
	}
	for _, part := range []string{"conditions", "outputs"} {
		for _, name := range sorted(section(t.tree, part)) {
			v.within(vnfd.Warning, t, []string{part, name}, section(t.tree, part)[name])
		}
	}
}

// within judges what the value refers to.
func (v *validator) within(s vnfd.Severity, t *template, at []string, value any) {
	switch x := value.(type) {
	case map[string]any:
		function, arg, _ := call(x)
		switch function {
		case "get_param":
			v.parameter(s, t, at, arg)
		case "get_resource", "get_attr":
			name, _ := first(arg)
			v.resource(s, t, at, name)
		case "if", "repeat": // what isn't chosen isn't read; what is repeated may have names with variables in them
			s = vnfd.Warning
		}
		for _, key := range sorted(x) {
			v.within(s, t, at, x[key])
		}
	case []any:
		for _, e := range x {
			v.within(s, t, at, e)
		}
	}
}

func (v *validator) parameter(s vnfd.Severity, t *template, at []string, arg any) {
	declared := section(t.tree, "parameters")
	name, _ := first(arg)
	if name == "" || declared[name] != nil || slices.Contains(pseudo, name) || isPattern(name) {
		return
	}
	v.note(s, t.file, t.at(at...), "%s reads the parameter %.80s, which the template doesn't declare: it has %s", last(at), name, v.parameters)
}

func (v *validator) resource(s vnfd.Severity, t *template, at []string, name string) {
	if name == "" || t.resources()[name] != nil || isPattern(name) {
		return
	}
	v.note(s, t.file, t.at(at...), "%s refers to the resource %.80s, which isn't in the template: it has %s", last(at), name, v.resources)
}

// isPattern reports whether the name has a variable in it, such as %index%.
func isPattern(name string) bool { return strings.Contains(name, "%") }

func last(at []string) string { return at[len(at)-1] }
