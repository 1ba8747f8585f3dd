package process_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// forge is a desired repository on which no hook of Jibe runs, and a process that follows it.
type forge struct {
	*process.Server
	t    *testing.T
	work *process.WorkTree
}

func newForge(t *testing.T) *forge {
	t.Helper()
	bare := process.NewForge(t, map[string]string{
		"repositories.yaml": "- name: packages\n  url: packages.git\n  branch: main\n",
		"vims/sim.yaml":     "type: sim\ndefault: true\n",
	})
	f := &forge{t: t, work: process.NewWorkTree(t, bare)}
	f.Server = process.Start(t, filepath.Join(t.TempDir(), "data"), "--remote", "file://"+bare, "--poll", "1s")
	f.PushPackages(t, []string{webapp}, process.Root()+"/examples/packages/webapp")
	return f
}

// push commits files on top of what Jibe has pushed meanwhile; "" removes one.
func (f *forge) push(files map[string]string) {
	f.t.Helper()
	f.work.For(f.t).PushFiles(files)
}

// cli is what the command line client prints, and its exit code.
func (f *forge) cli(args ...string) (string, int) {
	f.t.Helper()
	out, errs, code := f.CLI(f.t, args...)
	return out + errs, code
}

func (f *forge) problems() (list []reconciler.Problem) {
	f.t.Helper()
	f.Want(f.t, http.StatusOK, http.MethodGet, "/jibe/v1/problems", nil, &list)
	return list
}

// until waits for the only problem to have these words in it, or with "" for none.
func (f *forge) until(words string) (p reconciler.Problem) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		list := f.problems()
		switch {
		case words == "" && len(list) == 0:
			return nil
		case words != "" && len(list) == 1 && strings.Contains(list[0].Message, words):
			p = list[0]
			return nil
		}
		return fmt.Errorf("problems are %+v, want %q", list, words)
	})
	return p
}

// settled waits until the instance has no operation under way and git no commit of Jibe's
// to come: it runs as its file says.
func (f *forge) settled(id string) {
	f.t.Helper()
	kit.Eventually(f.t, func() error {
		var in struct{ InstantiationState string }
		if err := f.Get(f.t.Context(), process.Instances+"/"+id, &in); err != nil {
			return err
		}
		if in.InstantiationState != "INSTANTIATED" {
			return fmt.Errorf("%s is %s", id, in.InstantiationState)
		}
		return nil
	})
}

// lineOf is the line of text that has these words in it, and its number; "" and 0 where
// none has.
func lineOf(text, words string) (string, int) {
	for i, line := range strings.Split(text, "\n") {
		if strings.Contains(line, words) {
			return line, i + 1
		}
	}
	return "", 0
}

func TestEachFileOnAForgeThatCannotBeObeyedIsANoteAProblemAndInTheMetrics(t *testing.T) {
	testenv.Chaos(t, "git")
	t.Parallel()
	f := newForge(t)
	const id, other = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
	const file, another = "instances/lab/b/vnf.yaml", "instances/lab/c/vnf.yaml"
	text := func(id, more string) string {
		return fmt.Sprintf("id: %s\nname: x%.1s\nvnfdId: %s\nflavour: simple\n%s", id, id, webapp, more)
	}
	f.push(map[string]string{file: text(id, "")})
	f.settled(id)
	f.until("")
	if out, code := f.cli("get", "problems"); out != "every file is obeyed\n" || code != 0 {
		t.Errorf("with none: exit code %d: %s", code, out)
	}
	for _, tt := range []struct {
		what, file, text string
		line             string // what the line at fault begins with, "" where none is named
		says             string
		id               string // of the instance, "" where nobody can know it
	}{
		{"YAML that can't be read, of a VNF that runs", file, "id: " + id + "\nname: [x\n", "", "", id},
		{"YAML that can't be read, of a new file", another, "name: x\nflavor: y\n", "flavor:", "flavor", ""},
		{"a vnfdId that is nowhere", another, strings.Replace(text(other, ""), webapp, "00000000-0000-4000-8000-00000000000a", 1), "vnfdId:", "00000000-0000-4000-8000-00000000000a", other},
		{"a vnfdId that is nowhere, not to run", another, strings.Replace(text(other, "state: notInstantiated\n"), webapp, "00000000-0000-4000-8000-00000000000a", 1), "vnfdId:", "00000000-0000-4000-8000-00000000000a", other},
		{"a level out of range, of a VNF that runs", file, text(id, "levels: {vdu1_aspect: 99}\n"), "levels:", "99", id},
		{"a level out of range, of a new VNF", another, text(other, "levels: {vdu1_aspect: 99}\n"), "levels:", "99", other},
		{"an unknown VIM", another, text(other, "vim: elsewhere\n"), "vim:", "vims/elsewhere.yaml", other},
		{"an id that is another's", another, text(id, ""), "", id, id},
		{"a VIM that can't be read", "vims/bad.yaml", "type: mainframe\n", "type:", "mainframe", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			f := &forge{f.Server, t, f.work}
			f.push(map[string]string{tt.file: tt.text})
			words := tt.says
			if words == "" {
				words = " "
			}
			p := f.until(words)
			_, line := lineOf(tt.text, tt.line)
			if p.File != tt.file || tt.line != "" && p.Line != line || p.Instance != tt.id || p.Since.IsZero() {
				t.Errorf("the problem is %+v, want %s:%d of %q", p, tt.file, line, tt.id)
			}
			out, code := f.cli("get", "problems", "-o", "wide")
			if shown, _ := lineOf(out, tt.file); !strings.Contains(shown, tt.says) || !strings.Contains(shown, tt.id) || code != 0 {
				t.Errorf("jibe get problems: exit code %d:\n%s", code, out)
			}
			if _, code := f.cli("get", "problems", "--exit-code"); code != 2 {
				t.Errorf("jibe get problems --exit-code: exit code %d, want 2", code)
			}
			if tt.id != "" {
				out, _ := f.cli("get", "instances", "-o", "wide")
				if shown, _ := lineOf(out, tt.id); !strings.Contains(shown, "not obeyed: ") {
					t.Errorf("jibe get instances has no note of %s:\n%s", tt.id, out)
				}
				out, _ = f.cli("get", "problems", "--instance", tt.id, "-o", "json")
				var own []reconciler.Problem
				if err := json.Unmarshal([]byte(out), &own); err != nil || len(own) != 1 {
					t.Errorf("jibe get problems --instance %s: %s", tt.id, out)
				}
			}
			metrics := string(f.Want(t, http.StatusOK, http.MethodGet, "/metrics", nil, nil).Body)
			for _, want := range []string{"jibe_desired_problems 1", fmt.Sprintf(`jibe_desired_problem_since_timestamp_seconds{file=%q,instance=%q} `, tt.file, tt.id)} {
				if shown, _ := lineOf(metrics, want); shown == "" {
					t.Errorf("metrics don't have %q", want)
				}
			}

			repaired := map[string]string{tt.file: ""}
			if tt.file == file {
				repaired[file] = text(id, "")
			}
			f.push(repaired)
			f.until("")
			if out, _ := f.cli("get", "instances"); strings.Contains(out, "not obeyed") {
				t.Errorf("after it was repaired:\n%s", out)
			}
		})
	}
	var ops []process.Operation
	f.Want(t, http.StatusOK, http.MethodGet, process.Operations, nil, &ops)
	if len(ops) != 1 {
		t.Errorf("operations are %+v, want the one that began it all", ops)
	}
}

func TestAVnfdIdThatWasNowhereIsTakenUpWhenItsPackageIsPushed(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	f := newForge(t)
	const id = "33333333-3333-4333-8333-333333333333"
	f.push(map[string]string{"instances/lab/d/vnf.yaml": fmt.Sprintf("id: %s\nvnfdId: %s\nflavour: simple\nparams: {lcm-kubernetes-def-files: [%s]}\n",
		id, process.SmallVnfd, strings.Join(process.SmallManifests(), ", "))})
	f.until(process.SmallVnfd)
	f.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	f.settled(id)
	f.until("")
}
