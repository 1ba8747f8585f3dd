package app_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestOrphansAreToldOfAndDeletedByTheAPI(t *testing.T) {
	t.Parallel()

	cloud := sim.NewCloud()
	s, stop := start(t, t.TempDir(), cloud, "")
	t.Cleanup(stop)
	const ends, stays = "3a5c1f0e-0000-4000-8000-00000000000a", "3a5c1f0e-0000-4000-8000-00000000000b"
	git := repository(t, s, map[string]string{
		"vims/cloud.yaml":      "type: sim\ndefault: true\n",
		"instances/a/vnf.yaml": instance("id: " + ends + "\n"),
		"instances/b/vnf.yaml": strings.Replace(instance("id: "+stays+"\n"), "namespace: a", "namespace: b", 1),
	})
	runs := func(ids ...string) {
		t.Helper()
		kit.Until(t, fmt.Sprintf("%v run", ids), func() bool { return slices.Equal(cloud.Instances(), ids) })
	}
	completed := func(id string) {
		t.Helper()
		kit.Until(t, id+" is at rest", func() bool {
			var ops []struct{ OperationState string }
			err := s.Get(t.Context(), "/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,"+id+")", &ops)
			return err == nil && len(ops) > 0 && !slices.ContainsFunc(ops, func(o struct{ OperationState string }) bool { return o.OperationState != "COMPLETED" })
		})
	}
	runs(ends, stays)
	completed(ends)
	completed(stays)
	backup := cloud.Copy()
	change(git, map[string]string{"instances/a/vnf.yaml": ""})
	kit.Until(t, "nothing knows it", func() bool {
		a, err := s.Do(t.Context(), http.MethodGet, "/vnflcm/v2/vnf_instances/"+ends, nil)
		return err == nil && a.Status == http.StatusNotFound
	})
	kit.Until(t, "its record is gone", func() bool {
		var gone []struct{ OperationState string }
		return s.Get(t.Context(), "/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,"+ends+")%3B(eq,operation,TERMINATE)%3B(eq,operationState,COMPLETED)", &gone) == nil && len(gone) == 1
	})

	cloud.Restore(backup)

	var found reconciler.Orphans
	kit.Until(t, "it is found", func() bool {
		s.Want(t, http.StatusOK, http.MethodGet, "/jibe/v1/orphans", nil, &found)
		return len(found.Orphans) > 0
	})
	if len(found.Orphans) != 1 || found.Orphans[0].Instance != ends || found.Orphans[0].Dir != "instances/a" || len(found.Unseen) > 0 {
		t.Fatalf("%+v", found)
	}
	for _, wrong := range []string{`{}`, `{"objects": [{"vim": "cloud"}]}`, `{"instances": ["` + stays + `"]}`, `[]`} {
		if r := send(t, s, http.MethodPost, "/jibe/v1/orphans/delete", wrong, "Authorization", "Bearer "+s.Token); r.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s", wrong, r.Status)
		}
	}
	other := found.Orphans[0].Ref()
	other.Incarnation = "another"
	s.Want(t, http.StatusConflict, http.MethodPost, "/jibe/v1/orphans/delete", reconciler.OrphanDeletion{Objects: []reconciler.OrphanRef{other}}, nil)
	runs(ends, stays)

	var done reconciler.OrphansDeleted
	s.Want(t, http.StatusOK, http.MethodPost, "/jibe/v1/orphans/delete", reconciler.OrphanDeletion{Objects: []reconciler.OrphanRef{found.Orphans[0].Ref()}}, &done)

	if len(done.Deleted) != 1 || len(done.Refused) > 0 {
		t.Errorf("%+v", done)
	}
	runs(stays)
	all := records(t, s.Data)
	if r := all[len(all)-1]; r.Outcome != audit.Done || r.Object != "/jibe/v1/orphans/delete" || !strings.Contains(r.Reason, ends) {
		t.Errorf("the audit log has %+v", r)
	}
}

func TestWhatWasDeletedIsAuditedThoughTheRestFails(t *testing.T) {
	t.Parallel()

	cloud := sim.NewCloud()
	s, stop := start(t, t.TempDir(), cloud, "")
	t.Cleanup(stop)
	const goes, fails = "3a5c1f0e-0000-4000-8000-00000000000a", "3a5c1f0e-0000-4000-8000-00000000000b"
	git := repository(t, s, map[string]string{
		"vims/cloud.yaml":      "type: sim\ndefault: true\n",
		"instances/a/vnf.yaml": instance("id: " + goes + "\n"),
		"instances/b/vnf.yaml": strings.Replace(instance("id: "+fails+"\n"), "namespace: a", "namespace: b", 1),
		"instances/c/vnf.yaml": strings.Replace(instance("id: 3a5c1f0e-0000-4000-8000-00000000000c\n"), "namespace: a", "namespace: c", 1),
	})
	completed := func(operation string, n int) {
		t.Helper()
		kit.Until(t, operation+" is completed", func() bool {
			var ops []struct{ OperationState string }
			err := s.Get(t.Context(), "/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,operation,"+operation+")%3B(eq,operationState,COMPLETED)", &ops)
			return err == nil && len(ops) == n
		})
	}
	completed("INSTANTIATE", 3)
	backup := cloud.Copy()
	change(git, map[string]string{"instances/a/vnf.yaml": ""}) // one by one: all at once would be held as a mistake
	completed("TERMINATE", 1)
	change(git, map[string]string{"instances/b/vnf.yaml": ""})
	completed("TERMINATE", 2)
	cloud.Restore(backup)
	var found reconciler.Orphans
	kit.Until(t, "they are found", func() bool {
		s.Want(t, http.StatusOK, http.MethodGet, "/jibe/v1/orphans", nil, &found)
		return len(found.Orphans) == 2
	})
	cloud.BeforeStep(func(instance string, _ plan.Step) error {
		if instance == fails {
			return drivers.ErrUnavailable
		}
		return nil
	})

	a, err := s.Do(t.Context(), http.MethodPost, "/jibe/v1/orphans/delete", reconciler.OrphanDeletion{Objects: []reconciler.OrphanRef{found.Orphans[0].Ref(), found.Orphans[1].Ref()}})

	if err != nil || a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), "1 deleted") {
		t.Errorf("%+v, %v", a, err)
	}
	all := records(t, s.Data)
	if r := all[len(all)-1]; r.Object != "/jibe/v1/orphans/delete" || !strings.Contains(r.Reason, "1 deleted") || !strings.Contains(r.Reason, goes) || !strings.Contains(r.Reason, "1 whose deletion failed midway") {
		t.Errorf("the audit log has %+v", r)
	}
}

func TestOrphansAreAProblemAndAMetric(t *testing.T) {
	t.Parallel()

	cloud := sim.NewCloud()
	data := t.TempDir()
	s, stop := start(t, data, cloud, "")
	const id = "3a5c1f0e-0000-4000-8000-00000000000a"
	git := repository(t, s, map[string]string{"vims/cloud.yaml": "type: sim\ndefault: true\n", "instances/a/vnf.yaml": instance("id: " + id + "\n")})
	metrics(t, s, `jibe_orphaned_objects{vim="cloud"} 0`)
	kit.Until(t, "it runs", func() bool { return len(cloud.Instances()) == 1 })
	kit.Until(t, "its record says so", func() bool {
		var one struct{ InstantiationState string }
		return s.Get(t.Context(), "/vnflcm/v2/vnf_instances/"+id, &one) == nil && one.InstantiationState == "INSTANTIATED"
	})
	backup := cloud.Copy()
	change(git, map[string]string{"instances/a/vnf.yaml": ""})
	kit.Until(t, "its record is gone", func() bool {
		var gone []struct{ OperationState string }
		return s.Get(t.Context(), "/vnflcm/v2/vnf_lcm_op_occs?filter=(eq,vnfInstanceId,"+id+")%3B(eq,operation,TERMINATE)%3B(eq,operationState,COMPLETED)", &gone) == nil && len(gone) == 1
	})
	stop()
	cloud.Restore(backup)

	s, stop = start(t, data, cloud, "") // which makes a survey
	t.Cleanup(stop)

	metrics(t, s, `jibe_orphaned_objects{vim="cloud"} 1`, "jibe_desired_problems 1")
	var list []reconciler.Problem
	if err := s.Get(t.Context(), "/jibe/v1/problems", &list); err != nil || len(list) != 1 || list[0].VIM != "cloud" || !strings.Contains(list[0].Remedy, "jibe orphans delete") {
		t.Errorf("%+v, %v", list, err)
	}
	if _, page := ask(t, s, http.MethodGet, "/ui/", nil, "Authorization", "Bearer "+s.Token); !strings.Contains(page, "belong to no VNF") {
		t.Errorf("the page of the fleet says nothing:\n%s", page)
	}
	a, err := s.Do(t.Context(), http.MethodGet, "/metrics", nil)
	if err != nil || strings.Contains(string(a.Body), "jibe_desired_problem_since_timestamp_seconds{") {
		t.Errorf("a file counts as not obeyed: %v", err)
	}
}
