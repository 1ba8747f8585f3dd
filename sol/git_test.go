package sol_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol"
)

// onGit is the API over a real git repository.
func onGit(t *testing.T) (*env, *gitrepo.Repo, string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is not installed, and Jibe needs it: apt-get install git")
	}
	dir := filepath.Join(t.TempDir(), "desired.git")
	repo, err := gitrepo.Open(t.Context(), gitrepo.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { repo.Close() })
	e := setup(t, func(c *sol.Config) { c.Repo = repo })
	return e, repo, dir
}

func gitLog(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "log"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func TestALifeIsACommitEach(t *testing.T) {
	e, repo, dir := onGit(t)
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	scale := e.begun(e.want(202, "POST", path+"/scale", scaleOut))
	e.finish(scale, pod("a", "VDU1", "vdu1-1"), pod("b", "VDU2", "vdu2-1"))
	if got := show(e, id).InstantiatedVnfInfo.ScaleStatus[1].Level; got != 2 {
		t.Errorf("scaleLevel %d, want 2", got)
	}
	e.finish(e.begun(e.want(202, "PATCH", path, `{"vnfInstanceName": "smf"}`)))
	e.finish(e.begun(e.want(202, "POST", path+"/terminate", `{"terminationType": "FORCEFUL"}`)))
	e.want(204, "DELETE", path, "")
	e.want(404, "GET", path, "")
	where := desired.APIDir(id)
	want := ""
	for _, subject := range []string{"DELETE", "TERMINATE", "MODIFY_INFO", "SCALE", "INSTANTIATE", "CREATE"} {
		want += subject + " " + where + "\n"
	}
	if got := gitLog(t, dir, "--format=%s", "main"); got != want {
		t.Errorf("git log:\n%swant:\n%s", got, want)
	}
	commit, err := repo.FindTrailer(t.Context(), "", desired.TrailerOperation, scale)
	if err != nil {
		t.Fatal(err)
	}
	if got := gitLog(t, dir, "-1", "--format=%an%n%(trailers)", commit); !strings.HasPrefix(got, "nfvo\nVnf-Lcm-Op-Occ: "+scale+"\nOperation: SCALE\nRequested-By: nfvo\n") {
		t.Errorf("%s", got)
	}
}

func TestConcurrentRequestsOnManyInstancesLoseNothing(t *testing.T) {
	e, repo, _ := onGit(t)
	const n = 24
	var wg sync.WaitGroup
	made := make([]string, n)
	for i := range n {
		wg.Go(func() {
			var in sol.VnfInstance
			a := e.do("POST", api+"/vnf_instances", `{"vnfdId": "vnfd-1"}`)
			if a.StatusCode != 201 {
				t.Errorf("create: %d %s", a.StatusCode, a.body)
				return
			}
			a.json(t, &in)
			made[i] = in.ID
			for j := range 3 {
				a := e.do("PATCH", api+"/vnf_instances/"+in.ID, fmt.Sprintf(`{"metadata": {"n%d": %d}}`, j, j))
				if a.StatusCode != 202 {
					t.Errorf("modify: %d %s", a.StatusCode, a.body)
					return
				}
				op := strings.TrimPrefix(a.Header.Get("Location"), base+api+"/vnf_lcm_op_occs/")
				if _, err := e.oplog.Record(t.Context(), op, func(op *lcm.Operation, _ *lcm.Instance) error {
					return op.Advance(lcm.Converged, op.Started, nil)
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for _, id := range made {
		if got := len(show(e, id).Metadata); got != 3 {
			t.Errorf("instance %s has %d of 3 changes", id, got)
		}
	}
	if got := len(repo.List()); got != n {
		t.Errorf("%d instances, want %d", got, n)
	}
}

func TestRecoverFindsTheRevisionInGit(t *testing.T) {
	e, repo, _ := onGit(t)
	id := e.instantiated()
	head, _ := repo.Lookup(id)
	if err := e.oplog.Prepare(t.Context(), lcm.Operation{ID: "op-1", Instance: id, Type: lcm.Scale, Before: head}); err != nil {
		t.Fatal(err)
	}
	write := func(op, line string) desired.Revision {
		rev, err := repo.Write(t.Context(), desired.Write{Instance: id, Subject: line, Trailers: []desired.Trailer{{Key: desired.TrailerOperation, Value: op}},
			Change: func(_ desired.Revision, old desired.Files) (desired.Files, error) {
				return desired.Files{desired.InstanceFile: append(slices.Clone(old[desired.InstanceFile]), line...)}, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		return rev
	}
	made := write("op-1", "levels: {vdu1_aspect: 1}\n")
	write("other", "# later\n")
	at := func(ctx context.Context, commit, instance string) (desired.Revision, error) {
		s, err := repo.At(ctx, commit)
		if err != nil {
			return desired.Revision{}, err
		}
		rev, ok := s.Lookup(instance)
		if !ok {
			return rev, desired.ErrNotFound
		}
		return rev, nil
	}
	ids, err := sol.Recover(t.Context(), repo, nil, at, e.oplog, e.config.Log)
	if err != nil || len(ids) != 1 {
		t.Fatalf("%v, %v", ids, err)
	}
	op, err := e.oplog.Operation(t.Context(), "op-1")
	if err != nil || op.After.Tree != made.Tree {
		t.Errorf("%+v, %v; want tree %s", op, err, made.Tree)
	}
}

func TestACommittedChangeOfPackageHoldsNoSecretAndMovesTheETag(t *testing.T) {
	e, _, dir := onGit(t)
	e.successor("vnfd-2", tree2, "2.1")
	id := e.instantiated()
	path := api + "/vnf_instances/" + id
	tag := e.want(200, "GET", path, "").Header.Get("ETag")
	op := e.begun(e.want(202, "POST", path+"/change_vnfpkg", change(`"vdu_params": {"vdu_id": "VDU1", "new_vnfc_param": {"cp-name": "CP1", "password": "very-secret"}}`), "If-Match", tag))
	e.finish(op, pod("c", "VDU1", "vdu1-2"))
	e.want(412, "PATCH", path, `{"vnfdId": "vnfd-1"}`, "If-Match", tag)
	e.want(202, "PATCH", path, `{"vnfdId": "vnfd-1", "vimConnectionInfo": {"vim1": {"accessInfo": {"bearer_token": "very-secret-too"}}}}`)
	history := gitLog(t, dir, "-p", "--all")
	for _, part := range []string{"CHANGE_VNFPKG instances/", "+vnfdId: vnfd-2", "+base: \"" + tree2, "Vnf-Lcm-Op-Occ: " + op, "cp_name: CP1"} {
		if !strings.Contains(history, part) {
			t.Errorf("%q isn't in the history:\n%s", part, history)
		}
	}
	if strings.Contains(history, "very-secret") {
		t.Errorf("a secret is in the history:\n%s", history)
	}
}
