package csar

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
	"github.com/jibe-vnfm/jibe/vnfd"
	"go.yaml.in/yaml/v3"
)

// manifests is where a package keeps its Kubernetes manifests.
const manifests = "Files/kubernetes"

// maxProblems is how many problems of a hostile package are reported.
const maxProblems = 1000

// maxManifest is the size in bytes that a manifest may have.
const maxManifest = 4 << 20

// Validate returns everything that is wrong with a package, for its author: what
// [vnfd.Load] refuses, listed artifacts that are missing or were changed, and
// manifests that aren't Kubernetes objects. A warning is about something that works, though
// hardly as it was meant.
func Validate(files fs.FS) []vnfd.Problem {
	p, problems, err := vnfd.Check(files)
	if err != nil {
		return []vnfd.Problem{{File: ".", Message: err.Error(), Severity: vnfd.Error}}
	}
	v := &validator{files: files, problems: problems, workloads: map[string][]string{}}
	if meta, err := vnfd.ReadMeta(files); err == nil { // else Check has reported why not
		v.listed = true
		v.artifacts(p, meta)
	}
	v.definitions(p)
	v.manifests(p)
	return vnfd.SortProblems(v.problems)
}

type validator struct {
	files     fs.FS
	problems  []vnfd.Problem
	listed    bool                // TOSCA.meta and the manifest could be read
	workloads map[string][]string // metadata.name -> kinds
}

func (v *validator) fail(file string, line int, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		return
	}
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: vnfd.Error})
}

func (v *validator) warn(file string, line int, format string, args ...any) {
	if len(v.problems) >= maxProblems {
		return
	}
	v.problems = append(v.problems, vnfd.Problem{File: file, Line: line, Message: fmt.Sprintf(format, args...), Severity: vnfd.Warning})
}

func (v *validator) artifacts(p *vnfd.Package, meta *vnfd.Meta) {
	err := vnfd.VerifyArtifacts(p)
	if invalid, ok := errors.AsType[*vnfd.InvalidError](err); ok {
		v.problems = append(v.problems, invalid.Problems...)
	} else if err != nil {
		v.fail(vnfd.MetaFile, 0, "%v", err)
	}
	hashed := map[string]bool{}
	for _, a := range meta.Artifacts {
		hashed[a.Path] = hashed[a.Path] || a.Hash != ""
	}
	for _, a := range meta.Artifacts {
		switch {
		case a.Remote():
			v.warn(a.File, a.Line, "%s is outside the package: nobody checks what is there", a.Path)
		case !hashed[a.Path]:
			v.warn(a.File, a.Line, "%s has no checksum: add Algorithm and Hash", a.Path)
		}
	}
}

// definitions warns of files that look like a part of the VNFD but aren't.
func (v *validator) definitions(p *vnfd.Package) {
	if p.VNFD == nil {
		return
	}
	for _, name := range p.Unused() {
		v.warn(name, 0, "Entry-Definitions doesn't import the file, directly or through others: it is ignored")
	}
}

// manifests checks the files under Files/kubernetes, and that every VDU has a
// workload in one of them.
func (v *validator) manifests(p *vnfd.Package) {
	found := false
	err := fs.WalkDir(v.files, manifests, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		if v.listed && !p.HasArtifact(name) {
			v.warn(name, 0, "isn't listed in TOSCA.meta or the manifest: an instance can't name it in lcm-kubernetes-def-files")
		}
		if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(name))) {
			found = true
			v.manifest(name)
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.fail(manifests, 0, "%v", err)
	}
	if !found || p.VNFD == nil {
		return // a VNF of servers, or of a Helm chart
	}
	for _, f := range p.VNFD.Flavours {
		_, err := fs.Stat(v.files, path.Join("BaseHOT", f.ID))
		servers := err == nil // a VNF on two VIMs: its other VDUs are in Heat templates
		for _, vdu := range f.VDUs {
			kinds := v.workloads[vdu.Name]
			switch {
			case len(kinds) == 0 && servers:
			case len(kinds) == 0:
				v.warn(manifests, 0, "VDU %s of flavour %s: no Pod, Deployment, ReplicaSet, StatefulSet or DaemonSet has metadata.name %q", vdu.ID, f.ID, vdu.Name)
			case len(vdu.Deltas) > 0 && !slices.ContainsFunc(kinds, scalable):
				v.warn(manifests, 0, "VDU %s of flavour %s has a scaling aspect, but its workload %q is a %s, which can't scale: the aspect is refused", vdu.ID, f.ID, vdu.Name, kinds[0])
			}
		}
	}
}

// scalable says whether the kind of workload has a number of replicas.
func scalable(kind string) bool { return kind != "DaemonSet" && kind != "Pod" }

func (v *validator) manifest(name string) {
	f, err := v.files.Open(name)
	if err != nil {
		v.fail(name, 0, "%v", err)
		return
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	switch {
	case err != nil:
		v.fail(name, 0, "%v", err)
		return
	case len(data) > maxManifest:
		v.fail(name, 0, "is larger than %d bytes", maxManifest)
		return
	}
	docs, err := safeyaml.Parse(data)
	if bad, ok := errors.AsType[*safeyaml.Error](err); ok {
		v.fail(name, bad.Line, "%s", bad.Message)
		return
	}
	if len(docs) == 0 {
		v.fail(name, 0, "holds no Kubernetes object")
	}
	for _, doc := range docs {
		v.object(name, doc)
	}
}

func (v *validator) object(file string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		v.fail(file, n.Line, "must be a Kubernetes object, with apiVersion, kind and metadata")
		return
	}
	version, ok1 := safeyaml.Text(safeyaml.Get(n, "apiVersion"))
	kind, ok2 := safeyaml.Text(safeyaml.Get(n, "kind"))
	if !ok1 || !ok2 || version == "" || kind == "" {
		v.fail(file, n.Line, "a Kubernetes object needs apiVersion and kind")
		return
	}
	if kind == "List" {
		for item := range safeyaml.Items(safeyaml.Get(n, "items")) {
			if k, _ := safeyaml.Text(safeyaml.Get(item, "kind")); k == "List" {
				v.fail(file, item.Line, "a List in a List")
				continue
			}
			v.object(file, item)
		}
		return
	}
	name, ok := safeyaml.Text(safeyaml.Get(n, "metadata", "name"))
	if !ok && !strings.HasSuffix(kind, "Review") {
		v.fail(file, n.Line, "%s has no metadata.name", kind)
		return
	}
	switch kind {
	case "Pod", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet":
		v.workloads[name] = append(v.workloads[name], kind)
	case "Secret":
		if safeyaml.Get(n, "data") != nil || safeyaml.Get(n, "stringData") != nil {
			v.warn(file, n.Line, "Secret %s stands here in clear: whoever can read the package has it", name)
		}
	}
}
