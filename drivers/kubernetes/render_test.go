package kubernetes_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// nowhere is a driver that only renders: it never reaches a VIM.
func nowhere(t testing.TB) *kubernetes.Driver {
	t.Helper()
	d, err := kubernetes.New(drivers.VIM{Name: "nowhere", Endpoint: "https://127.0.0.1:1"}, kubernetes.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// workloads is a descriptor with a VDU for each name: those called one to three
// have an aspect of their own, a step of which is two units.
func workloads(names ...string) *vnfd.VNFD {
	f := vnfd.Flavour{ID: "simple"}
	for _, name := range names {
		vdu := vnfd.VDU{ID: strings.ToUpper(name), Name: name, Initial: 1, Max: -1}
		aspect := name + "_aspect"
		vdu.Deltas = map[string]int{aspect: 2}
		f.VDUs = append(f.VDUs, vdu)
		f.Aspects = append(f.Aspects, vnfd.Aspect{ID: aspect, MaxLevel: 3})
	}
	return &vnfd.VNFD{DefaultFlavour: "simple", Flavours: []vnfd.Flavour{f}}
}

// Each golden file has: "intent" (params, levels, vdus, generation, and the paths of
// container updates), the package's files, those of each container update's package
// under "update-1/" and so on, and the result.
func TestRenderMakesTheseObjects(t *testing.T) {
	paths, err := filepath.Glob("testdata/render/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no golden files", err)
	}
	digests := regexp.MustCompile(`(vnf.jibe.dev/(?:digest|mould|config): ).*`)
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var intent struct {
				Params     map[string]any
				Levels     map[string]int
				VDUs       []string
				Generation string
				Updates    [][]string
			}
			files, updates := fstest.MapFS{}, map[string]fstest.MapFS{}
			kept := archive.Files[:0:0]
			for _, f := range archive.Files {
				switch f.Name {
				case "intent":
					if err := yaml.UnmarshalStrict(f.Data, &intent); err != nil {
						t.Fatal(err)
					}
				case "result":
					continue
				default:
					into, name := files, f.Name
					if update, rest, ok := strings.Cut(f.Name, "/"); ok && strings.HasPrefix(update, "update-") {
						if updates[update] == nil {
							updates[update] = fstest.MapFS{}
						}
						into, name = updates[update], rest
					}
					into[name] = &fstest.MapFile{Data: f.Data}
				}
				kept = append(kept, f)
			}
			src := packaged("i1", "", files, workloads(intent.VDUs...), intent.Levels)
			src.Instance.Params, src.Instance.Generation = intent.Params, intent.Generation
			for i, paths := range intent.Updates {
				src = updated(src, updates[fmt.Sprintf("update-%d", i+1)], paths...)
			}
			d := nowhere(t)
			got := ""
			desired, err := d.Render(src)
			var refused *drivers.RefusedError
			switch {
			case errors.As(err, &refused):
				got = "refused: " + refused.Error() + "\n"
			case err != nil:
				t.Fatal(err)
			default:
				for _, g := range desired.Groups {
					got += fmt.Sprintf("# %s: %d of %s", g.VDU, g.Count, g.Owner)
					if g.Free {
						got += ", free"
					}
					got += "\n"
				}
				objects, err := d.RenderYAML(src)
				if err != nil {
					t.Fatal(err)
				}
				got += digests.ReplaceAllString(objects, "${1}…")
			}
			archive.Files = append(kept, txtar.File{Name: "result", Data: []byte(got)})
			kit.Golden(t, path, txtar.Format(archive))
		})
	}
}

func TestDigestHidesSecretsBehindTheKey(t *testing.T) {
	src := source("i1", "ns", "{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {pin: '1234'}}", workloads(), nil)
	digest := func(key string) string {
		d, err := kubernetes.New(drivers.VIM{Endpoint: "https://127.0.0.1:1"}, kubernetes.Options{DigestKey: []byte(key)})
		if err != nil {
			t.Fatal(err)
		}
		want, err := d.Render(src)
		if err != nil {
			t.Fatal(err)
		}
		return want.Objects[0].Digest
	}
	if digest("one") == digest("two") {
		t.Error("the digest doesn't depend on the key")
	}
}

func TestNewRefusesWhatIsNoConnection(t *testing.T) {
	for name, vim := range map[string]drivers.VIM{
		"no endpoint":       {},
		"no URL":            {Endpoint: "kube-a:6443"},
		"broken kubeconfig": {Kubeconfig: []byte("{{")},
		"kubeconfig, command": {Kubeconfig: []byte("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {exec: {command: id, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}]\n")},
		"broken CA":           {Endpoint: "https://127.0.0.1:1", CACert: []byte("no PEM")},
		"certificate, no key": {Endpoint: "https://127.0.0.1:1", ClientCert: []byte("x")},
	} {
		if _, err := kubernetes.New(vim, kubernetes.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(frontAndBack))
	f.Add([]byte("kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("--- \n---\n{}"))
	f.Add([]byte(everyKind))
	f.Add([]byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [b]}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {volumes: {configMap: {name: a}}}}"))
	f.Add([]byte("{apiVersion: v1, kind: ConfigMapList, metadata: {name: a}}\n---\n{apiVersion: v1, kind: Secret, metadata: {name: a}, items: 1}"))
	d := nowhere(f)
	f.Fuzz(func(t *testing.T, manifest []byte) {
		src := source("i1", "ns", string(manifest), workloads("front"), nil)
		src.Package.Tree = ""
		want, err := d.Render(src)
		var refused *drivers.RefusedError
		if err != nil && !errors.As(err, &refused) {
			t.Fatalf("%T: %v", err, err)
		}
		again, err2 := d.Render(src)
		if (err == nil) != (err2 == nil) || !cmp.Equal(want.Desired, again.Desired) {
			t.Fatal("rendered twice, made two things")
		}
		if later, err3 := d.Render(ofGeneration(src, "1")); err3 != nil && !errors.As(err3, &refused) {
			t.Fatalf("%T: %v", err3, err3)
		} else if err == nil && err3 == nil && len(later.Objects) != len(want.Objects) {
			t.Fatal("a later generation has other objects")
		}
	})
}

func BenchmarkRender(b *testing.B) {
	d := nowhere(b)
	src := source("i1", "ns", frontAndBack, twoVDUs(), nil)
	for b.Loop() {
		if _, err := d.Render(src); err != nil {
			b.Fatal(err)
		}
	}
}
