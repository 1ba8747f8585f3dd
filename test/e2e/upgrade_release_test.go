package e2e

import (
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// hooked is a server whose package repository lets packages run hooks, and
// that is quick to give up on one.
var hooked = &sharedServer{args: []string{"--allow-hooks", "--hook-port", "any", "--hook-timeout", "20s", "--timeout", "60s"}}

// unconfined is another one, which doesn't confine them: those that keep a diary share a folder
// with the test.
var unconfined = &sharedServer{args: []string{"--allow-hooks", "--unconfined-hooks", "--hook-timeout", "20s", "--timeout", "60s"}}

var hooksAllowed, unconfinedAllowed sync.Once

// newStage is a bench for changes of package: the server runs hooks of packages.
func newStage(t *testing.T) *bench {
	t.Helper()
	return stageAt(t, hooked, &hooksAllowed)
}

// newUnconfinedStage is newStage where hooks have all the rights of their user.
func newUnconfinedStage(t *testing.T) *bench {
	t.Helper()
	return stageAt(t, unconfined, &unconfinedAllowed)
}

func stageAt(t *testing.T, s *sharedServer, allowed *sync.Once) *bench {
	t.Helper()
	b := newBench(t, s)
	allowed.Do(func() {
		afterwards(s.close)
		b.permit()
	})
	return b
}

// permit lets the packages of the server run their hooks.
func (b *bench) permit() {
	b.Helper()
	d := b.clone(b.T, "desired.git")
	d.Write("repositories.yaml", "- name: packages\n  url: packages.git\n  branch: main\n  hooks: true\n")
	d.Push("Let packages run their hooks")
}

// release is a version of a package that is a test's own.
type release struct {
	// n is its number: it stands in its vnfdId, its versions and the tags of its images.
	n    int
	vdus []vdu
	// beside are the objects that no VDU stands for.
	beside string
	// files are more files of the package, or other ones, by their paths.
	files map[string]string
	// vnfd changes the text of its VNFD.
	vnfd func(text string) string
}

// vnfdID is that of the test's release n.
func (b *bench) vnfdID(n int) string {
	h := fnv.New64a()
	fmt.Fprint(h, b.namespace)
	return fmt.Sprintf("e2e00000-%04d-4000-8000-%012x", n, h.Sum64()&(1<<48-1))
}

// image is that of the containers of release n.
func image(n int) string { return fmt.Sprintf("registry.k8s.io/pause:%d.0", n) }

// lay writes the release below dir, as a package repository has it.
func (b *bench) lay(dir string, r release) {
	b.Helper()
	id := b.vnfdID(r.n)
	if err := writePackage(dir, id, r.vdus); err != nil {
		b.Fatal(err)
	}
	dir = filepath.Join(dir, id)
	if err := os.Remove(filepath.Join(dir, "Files/kubernetes/none.yaml")); err != nil {
		b.Fatal(err)
	}
	d := process.WorkTreeAt(b, dir)
	all := d.Read("Files/kubernetes/all.yaml") + r.beside
	d.Write("Files/kubernetes/all.yaml", strings.ReplaceAll(all, "registry.k8s.io/pause:3.10", image(r.n)))
	vnfd := d.Read("Definitions/vnfd.yaml")
	for _, field := range []string{"descriptor_version", "software_version"} {
		vnfd = strings.Replace(vnfd, field+": '1.0'", fmt.Sprintf("%s: '%d.0'", field, r.n), 1)
	}
	if r.vnfd != nil {
		vnfd = r.vnfd(vnfd)
	}
	d.Write("Definitions/vnfd.yaml", vnfd)
	for name, text := range r.files {
		d.Write(name, text)
		if strings.HasPrefix(text, "#!") {
			if err := os.Chmod(filepath.Join(dir, name), 0o755); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// publish pushes the releases and waits until the server knows them.
func (b *bench) publish(releases ...release) {
	b.Helper()
	d := b.clone(b.T, "packages/packages.git")
	for _, r := range releases {
		b.lay(d.Dir(), r)
	}
	d.Push("Publish")
	for _, r := range releases {
		b.process.AwaitPackages(b, b.vnfdID(r.n))
	}
}

// standard is the package of most tests, in its version n: a front end behind a
// Service, which reads a ConfigMap and a Secret that every version has otherwise, a
// back end, and a ConfigMap that only this version has.
func standard(n int) release {
	return release{n: n, vdus: []vdu{
		{kind: "Deployment", name: "web", initial: 2, pod: "volumes: [{name: s, configMap: {name: settings}}, {name: l, secret: {secretName: login}}], "},
		{kind: "Deployment", name: "back", initial: 1},
	}, beside: standardBeside(n)}
}

func standardBeside(n int) string {
	return front + fmt.Sprintf(`---
{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {mode: release-%[1]d}}
---
{apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {password: secret-of-%[1]d}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: only-in-%[1]d}, data: {a: b}}
`, n)
}

// stuck is the standard package whose new pods get no node unless the test says so.
func stuck(n int) release {
	r := standard(n)
	r.vdus[0].pod += nobody
	return r
}

// amend edits the instance's file and pushes it: each old becomes the next word.
func (b *bench) amend(d *process.WorkTree, file, subject string, oldnew ...string) {
	b.Helper()
	d.Pull()
	for i := 0; i < len(oldnew); i += 2 {
		d.Replace(file, oldnew[i], oldnew[i+1])
	}
	d.Push(subject)
}

// upgraded is amend of the vnfdId alone.
func (b *bench) upgraded(d *process.WorkTree, file string, from, to int) {
	b.Helper()
	b.amend(d, file, fmt.Sprintf("Upgrade to %d.0", to), "vnfdId: "+b.vnfdID(from), "vnfdId: "+b.vnfdID(to))
}

// outcome waits until the instance's operation n (from 0) moves no more by itself,
// and fails the test unless it then reads so ("CHANGE_VNFPKG COMPLETED").
func (b *bench) outcome(id string, n int, want string) object {
	b.Helper()
	var op object
	kit.Eventually(b, func() error {
		ops := b.history(b.T, id)
		if len(ops) <= n {
			return fmt.Errorf("no %s: there are %d operations", want, len(ops))
		}
		op = ops[n]
		if now := op.text("operationState"); now != "COMPLETED" && now != "FAILED_TEMP" && now != "FAILED" && now != "ROLLED_BACK" {
			return fmt.Errorf("%s is %s, want %s", op.text("operation"), now, want)
		}
		return nil
	})
	if got := op.text("operation") + " " + op.text("operationState"); got != want {
		b.Fatalf("operation %d is %s, want %s: %v", n, got, want, op["error"])
	}
	return op
}

// changing is the body of a request that changes to release n; more are additional
// parameters, by turns name and value.
func (b *bench) changing(n int, kind string, more ...any) object {
	params := object{"upgrade_type": kind, "lcm-kubernetes-def-files": []string{"Files/kubernetes/all.yaml"}}
	for i := 0; i < len(more); i += 2 {
		params[more[i].(string)] = more[i+1]
	}
	return object{"vnfdId": b.vnfdID(n), "additionalParams": params}
}

// pathOf is the operation's path in the API.
func pathOf(op object) string { return path.Join(operations, op.text("id")) }

// versions compares what the API shows of the package with release n.
func (b *bench) versions(id string, n int) {
	b.Helper()
	shown := b.show(b.T, id)
	for attr, want := range map[string]string{"vnfdId": b.vnfdID(n), "vnfdVersion": fmt.Sprintf("%d.0", n), "vnfSoftwareVersion": fmt.Sprintf("%d.0", n), "vnfProvider": "Tests"} {
		if got := shown.text(attr); got != want {
			b.Errorf("%s is %q, want %q", attr, got, want)
		}
	}
}

// running counts the live pods that run the image of release n.
func (b *bench) running(n int) int {
	b.Helper()
	count := 0
	for _, p := range b.pods() {
		if p.Spec.Containers[0].Image == image(n) {
			count++
		}
	}
	return count
}
