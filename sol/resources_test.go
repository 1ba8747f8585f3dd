package sol_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/sol"
)

func TestServicesAndClaimsAreShownAsLinksAndStorages(t *testing.T) {
	e := setup(t)
	id, path := e.sickly()
	claim := func(name, uid string) plan.ObservedObject {
		return plan.ObservedObject{Key: "PersistentVolumeClaim/amf/" + name, Incarnation: uid}
	}
	going := claim("going", "going-uid")
	going.Deleting = true
	e.view.objects[id] = append(e.view.objects[id], claim("www-db-0", "w0-uid"), claim("www-db-12", "w12-uid"), claim("www-db", "own-uid"), going,
		plan.ObservedObject{Key: "StatefulSet/amf/db", Incarnation: "set-uid"},
		plan.ObservedObject{Key: "Service.serving.knative.dev/amf/fn", Incarnation: "fn-uid"})
	handle := func(kind, name string) sol.ResourceHandle {
		return sol.ResourceHandle{VimConnectionID: "vim1", ResourceID: name, VimLevelResourceType: kind}
	}
	storage := func(uid, desc, name string) sol.VirtualStorageResourceInfo {
		return sol.VirtualStorageResourceInfo{ID: uid, VirtualStorageDesc: desc, StorageResource: handle("PersistentVolumeClaim", name)}
	}
	info := show(e, id).InstantiatedVnfInfo
	if d := cmp.Diff([]sol.VirtualLinkResourceInfo{{ID: "s-uid", VirtualLinkDesc: "web", NetworkResource: handle("Service", "web")}}, info.VirtualLinks); d != "" {
		t.Error(d)
	}
	want := []sol.VirtualStorageResourceInfo{storage("pvc-uid", "data", "data"), storage("www-uid", "www-0", "www-0"),
		storage("w0-uid", "www", "www-db-0"), storage("w12-uid", "www", "www-db-12"), storage("own-uid", "www-db", "www-db")}
	if d := cmp.Diff(want, info.VirtualStorages); d != "" {
		t.Error(d)
	}
	body := string(e.want(200, "GET", path, "").body)
	for _, part := range []string{`"vnfVirtualLinkResourceInfo":[{"id":"s-uid","vnfVirtualLinkDescId":"web","networkResource":{"vimConnectionId":"vim1","resourceId":"web","vimLevelResourceType":"Service"}}]`,
		`"virtualStorageResourceInfo":[{"id":"pvc-uid","virtualStorageDescId":"data","storageResource":{`} {
		if !strings.Contains(body, part) {
			t.Errorf("%s isn't in %s", part, body)
		}
	}
	e.view.stale = true
	if info := show(e, id).InstantiatedVnfInfo; info.VirtualLinks != nil || info.VirtualStorages != nil || len(info.VnfcInfo) == 0 {
		t.Errorf("what isn't seen is shown: %+v", info)
	}
}

// countingView counts how often somebody looks at what runs.
type countingView struct {
	*memView
	looks int
}

func (v *countingView) Running(ctx context.Context, id string) (plan.Observed, bool) {
	v.looks++
	return v.memView.Running(ctx, id)
}

func TestWhatIsNotShownIsNotLookedAt(t *testing.T) {
	e := setup(t)
	id := e.instantiated()
	v := &countingView{memView: e.view}
	e.config.View = v
	e.handler = sol.New(e.config)
	for query, looks := range map[string]int{
		"/vnf_instances": 0, "/vnf_instances?exclude_default": 0, "/vnf_instances?fields=metadata": 0, "/vnf_instances?filter=(eq,vnfdId,vnfd-1)": 0,
		"/vnf_instances?all_fields": 1, "/vnf_instances?fields=instantiatedVnfInfo": 1, "/vnf_instances/" + id: 1,
	} {
		v.looks = 0
		e.want(200, "GET", api+query, "")
		if v.looks != looks {
			t.Errorf("%s looks %d times, want %d", query, v.looks, looks)
		}
	}
}
