package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// server is one `jibe serve` process.
type server struct {
	process          *process.Server
	url, data, token string
}

func serverOf(p *process.Server) *server {
	return &server{process: p, url: p.URL, data: p.Data, token: p.Token}
}

// serve starts a server that ends with the test.
func serve(t *testing.T, data string, args ...string) *server {
	t.Helper()
	if !slices.Contains(args, "--remote") && !slices.Contains(args, "--allow-hooks") {
		args = append(slices.Clone(args), "--allow-hooks", "--hook-port", "any") // a repository still has to say hooks: true
	}
	p, err := process.StartBinary(program(t), data, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.KillGroup() // a git that it had started would still write where folders are removed
		if t.Failed() {
			t.Logf("the end of the log of process %d:\n%s", p.Pid(), p.Log())
		}
	})
	return serverOf(p)
}

// answer is what the API said.
type answer struct{ *process.Answer }

// object decodes a body that is a JSON object.
func (a answer) object(t *testing.T) object {
	t.Helper()
	var o object
	if err := json.Unmarshal(a.Body, &o); err != nil {
		t.Fatalf("%d: %v: %s", a.Status, err, a.Body)
	}
	return o
}

// object is a JSON object; get reads it by path.
type object map[string]any

// get is what stands at the path, nil where nothing does.
func (o object) get(path ...string) any {
	var at any = map[string]any(o)
	for _, key := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

func (o object) text(path ...string) string {
	s, _ := o.get(path...).(string)
	return s
}

func (o object) list(path ...string) []object {
	list, _ := o.get(path...).([]any)
	var all []object
	for _, x := range list {
		if m, ok := x.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// rest makes a request of the API. header holds names and values that are set
// beside, or instead of, the usual ones.
func (s *server) rest(t testing.TB, method, path string, body any, header ...string) answer {
	t.Helper()
	a, err := s.process.Do(t.Context(), method, path, body, header...)
	if err != nil {
		t.Fatal(err)
	}
	return answer{a}
}

// must is rest that has to answer with the status.
func (s *server) must(t testing.TB, status int, method, path string, body any, header ...string) answer {
	t.Helper()
	a := s.rest(t, method, path, body, header...)
	if a.Status != status {
		t.Fatalf("%s %s: %d, want %d: %s", method, path, a.Status, status, a.Body)
	}
	return a
}

const instances, operations = "/vnflcm/v2/vnf_instances", "/vnflcm/v2/vnf_lcm_op_occs"

// begin makes a task request and returns the path of the operation. The record of the one before
// may have ended a moment before its outcome is in git; until then the answer is to ask again.
func (s *server) begin(t testing.TB, instance, task string, body any) string {
	t.Helper()
	at := instances + "/" + instance + "/" + task
	var a answer
	kit.Eventually(t, func() error {
		a = s.rest(t, http.MethodPost, at, body)
		if a.Status == http.StatusConflict && strings.Contains(string(a.Body), "its outcome is not yet committed: ask again in a moment") {
			return fmt.Errorf("POST %s: %s", at, a.Body)
		}
		return nil
	})
	if a.Status != http.StatusAccepted {
		t.Fatalf("POST %s: %d, want %d: %s", at, a.Status, http.StatusAccepted, a.Body)
	}
	return strings.TrimPrefix(a.Header.Get("Location"), s.url)
}

// await follows the operation until it has the state. It gives up at a state
// from which nothing moves without a request.
func (s *server) await(t *testing.T, operation, state string) object {
	t.Helper()
	return s.awaitWithin(t, kit.Patience, operation, state)
}

func (s *server) awaitWithin(t *testing.T, patience time.Duration, operation, state string) object {
	t.Helper()
	var op object
	kit.EventuallyWithin(t, patience, func() error {
		op = s.must(t, http.StatusOK, http.MethodGet, operation, nil).object(t)
		switch now := op.text("operationState"); now {
		case state:
			return nil
		case "COMPLETED", "FAILED_TEMP", "FAILED", "ROLLED_BACK":
			t.Fatalf("%s of %s is %s, want %s: %v", op.text("operation"), op.text("vnfInstanceId"), now, state, op["error"])
		default:
			return fmt.Errorf("%s is %s, want %s", op.text("operation"), now, state)
		}
		return nil
	})
	return op
}

// ended waits until the operation goes on by itself no more, however it ended.
func (s *server) ended(t *testing.T, operation string) object {
	t.Helper()
	var op object
	kit.Eventually(t, func() error {
		op = s.must(t, http.StatusOK, http.MethodGet, operation, nil).object(t)
		switch now := op.text("operationState"); now {
		case "COMPLETED", "FAILED_TEMP", "FAILED", "ROLLED_BACK":
			return nil
		default:
			return fmt.Errorf("%s is %s", op.text("operation"), now)
		}
	})
	return op
}

// run is begin and await COMPLETED.
func (s *server) run(t *testing.T, instance, task string, body any) object {
	t.Helper()
	return s.await(t, s.begin(t, instance, task, body), "COMPLETED")
}

// show is the instance as the API shows it.
func (s *server) show(t *testing.T, instance string) object {
	t.Helper()
	return s.must(t, http.StatusOK, http.MethodGet, instances+"/"+instance, nil).object(t)
}

// history is the instance's operations, oldest first.
func (s *server) history(t *testing.T, instance string) []object {
	t.Helper()
	a := s.must(t, http.StatusOK, http.MethodGet, operations+"?all_fields&filter=(eq,vnfInstanceId,"+instance+")", nil)
	list := decodeList(t, a.Body)
	began := func(op object) time.Time { // as text, a time without a fraction is after those of its second that have one
		at, err := time.Parse(time.RFC3339, op.text("startTime"))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	slices.SortStableFunc(list, func(x, y object) int { return began(x).Compare(began(y)) })
	return list
}

// cli runs the command line client and returns what it printed and its exit code.
func (s *server) cli(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return s.process.CLI(t, args...)
}

// clone is a person's clone of a repository of the server's.
func (s *server) clone(t testing.TB, repository string) *process.WorkTree {
	t.Helper()
	return s.process.WorkTree(t, repository)
}

// publishPlain puts the package "plain" into a server that has none yet.
func (s *server) publishPlain(t testing.TB) {
	t.Helper()
	d := s.clone(t, process.PackageRepository)
	if err := writePackage(d.Dir(), plain, packages[plain]); err != nil {
		t.Fatal(err)
	}
	d.Push("Publish")
	s.process.AwaitPackages(t, plain)
}

func decodeList(t *testing.T, text []byte) []object {
	t.Helper()
	var list []object
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return list
}
