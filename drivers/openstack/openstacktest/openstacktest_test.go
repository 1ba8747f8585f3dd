package openstacktest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
)

func made(t *testing.T, delay time.Duration, n int) (*openstacktest.Cloud, *client) {
	t.Helper()
	cloud, c := fake(t, delay)
	c.ask(http.StatusCreated, "POST", "orchestration", "/stacks", body("vnf", n, "img1"))
	if s := c.await("vnf"); s != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", cloud.AsRead("vnf"))
	}
	return cloud, c
}

func (c *client) patch(want int, b object) {
	c.t.Helper()
	c.ask(want, "PATCH", "orchestration", "/stacks/vnf/"+id(c, "vnf"), b)
}

func self(r object) string {
	for _, l := range r["links"].([]any) {
		if l := l.(object); l["rel"] == "self" {
			return l["href"].(string)
		}
	}
	return ""
}

func TestAStackIsMadeOfServersPortsAndNestedStacks(t *testing.T) {
	cloud, c := made(t, 20*time.Millisecond, 2)
	if list := cloud.Servers(); len(list) != 3 || list[0].Status != "ACTIVE" || list[0].Launched.IsZero() {
		t.Fatalf("servers %+v", list)
	}
	for _, m := range ofType(c.resources("vnf"), "VDU1.yaml") {
		if m["parent_resource"] != "VDU1_group" || len(m["resource_name"].(string)) != 12 {
			t.Errorf("member %+v", m)
		}
	}
	shown := c.ask(http.StatusOK, "GET", "orchestration", "/stacks/vnf", nil).body["stack"].(object)
	if ip := shown["outputs"].([]any)[0].(object)["output_value"]; !strings.HasPrefix(fmt.Sprint(ip), "10.10.0.") {
		t.Errorf("the address is %v", ip)
	}
	c.ask(http.StatusNoContent, "DELETE", "orchestration", "/stacks/vnf/"+id(c, "vnf"), nil)
	if s := c.await("vnf"); s != "DELETE_COMPLETE" || len(cloud.Left()) > 0 {
		t.Errorf("deleted: %s, left %v", s, cloud.Left())
	}
}

func TestAnUnhealthyServerIsReplacedByTheNextUpdate(t *testing.T) {
	cloud, c := made(t, 0, 2)
	before := cloud.Servers()
	leaf := ofType(c.resources("vnf"), "OS::Nova::Server")
	marked := leaf[len(leaf)-1]
	if r := c.send("PATCH", self(marked), object{"mark_unhealthy": true, "resource_status_reason": "by test"}); r.status != http.StatusOK || r.text != "null" {
		t.Fatalf("marking answers %d %s", r.status, r.text)
	}
	c.patch(http.StatusAccepted, object{"parameters": nfv(2, "img1")})
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" {
		t.Fatal(cloud.AsRead("vnf"))
	}
	after := cloud.Servers()
	if len(after) != 3 || slices.ContainsFunc(after, func(s openstacktest.ServerRecord) bool { return s.ID == marked["physical_resource_id"] }) {
		t.Errorf("before %+v\nafter %+v", before, after)
	}
}

func TestAShrinkingGroupLosesUnhealthyMembersFirst(t *testing.T) {
	cloud, c := made(t, 0, 3)
	members := ofType(c.resources("vnf"), "VDU1.yaml")
	victim := members[1]
	c.send("PATCH", self(victim), object{"mark_unhealthy": true})
	c.patch(http.StatusAccepted, object{"parameters": nfv(2, "img1")})
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" {
		t.Fatal(cloud.AsRead("vnf"))
	}
	left := ofType(c.resources("vnf"), "VDU1.yaml")
	for _, want := range []object{members[0], members[2]} {
		if !slices.ContainsFunc(left, func(m object) bool { return m["physical_resource_id"] == want["physical_resource_id"] }) {
			t.Errorf("%v was lost; left %v", want["resource_name"], left)
		}
	}
	if len(left) != 2 {
		t.Errorf("left %v", left)
	}
}

func TestAnotherImageRebuildsInPlaceAndMetadataKeepsTheServer(t *testing.T) {
	cloud, c := made(t, 20*time.Millisecond, 1)
	before := cloud.Servers()
	b := body("", 1, "img2")
	delete(b, "stack_name")
	b["template"] = strings.Replace(groupTemplate, "a: b", "a: c", 1)
	c.ask(http.StatusAccepted, "PUT", "orchestration", "/stacks/vnf/"+id(c, "vnf"), b)
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" {
		t.Fatal(cloud.AsRead("vnf"))
	}
	for i, s := range cloud.Servers() {
		was := before[i]
		if s.ID != was.ID {
			t.Errorf("%s became %s", was.ID, s.ID)
		}
		if single := s.Metadata["a"] != ""; single && (s.Metadata["a"] != "c" || !s.Launched.Equal(was.Launched)) || !single && (s.Image != "img2" || !s.Launched.After(was.Launched)) {
			t.Errorf("before %+v, after %+v", was, s)
		}
	}
}

func TestAnotherBootVolumeNeedsAnotherServer(t *testing.T) {
	cloud, c := fake(t, 0)
	boot := func(image string) object {
		return object{"stack_name": "vnf", "template": object{"heat_template_version": "2018-08-31", "resources": object{
			"disk":   object{"type": "OS::Cinder::Volume", "properties": object{"size": 1, "image": image}},
			"server": object{"type": "OS::Nova::Server", "properties": object{"flavor": "m1.tiny", "block_device_mapping_v2": []any{object{"volume_id": object{"get_resource": "disk"}}}, "networks": []any{object{"network": "net0"}}}},
		}}}
	}
	c.ask(http.StatusCreated, "POST", "orchestration", "/stacks", boot("img1"))
	c.await("vnf")
	before := cloud.Servers()
	c.ask(http.StatusAccepted, "PUT", "orchestration", "/stacks/vnf/"+id(c, "vnf"), boot("img2"))
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" {
		t.Fatal(cloud.AsRead("vnf"))
	}
	after := cloud.Servers()
	if len(before) != 1 || len(after) != 1 || before[0].ID == after[0].ID {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if left := cloud.Left(); left["ports"] != 1 || left["volumes"] != 1 {
		t.Errorf("left %v", left)
	}
}

func TestAQuotaEndsACreateAndTheNextUpdateMakesWhatIsMissing(t *testing.T) {
	cloud, c := fake(t, 0)
	cloud.Quota(2)
	c.ask(http.StatusCreated, "POST", "orchestration", "/stacks", body("vnf", 3, "img1"))
	if s := c.await("vnf"); s != "CREATE_FAILED" || !strings.Contains(cloud.Stacks()[0].Reason, "Resource CREATE failed: Forbidden: resources.VDU1_group.resources.") ||
		!strings.Contains(cloud.Stacks()[0].Reason, "Quota exceeded for instances") {
		t.Fatal(cloud.AsRead("vnf"))
	}
	cloud.Clear()
	c.patch(http.StatusAccepted, object{"parameters": nfv(3, "img1")})
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" || len(cloud.Servers()) != 4 {
		t.Error(cloud.AsRead("vnf"))
	}
}

func TestAnUpdateDuringAnUpdateIsTaken(t *testing.T) {
	cloud, c := made(t, 0, 1)
	cloud.Stick("vnf")
	c.patch(http.StatusAccepted, object{"parameters": nfv(2, "img1")})
	c.patch(http.StatusAccepted, object{"parameters": nfv(3, "img1")})
	if s := cloud.Stacks()[0].Status; s != "UPDATE_IN_PROGRESS" {
		t.Fatalf("the stack is %s", s)
	}
	cloud.Unstick("vnf")
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" || len(cloud.Servers()) != 4 {
		t.Error(cloud.AsRead("vnf"))
	}
}

func TestAFailedUpdateAndAFailedDeleteCanBeTriedAgain(t *testing.T) {
	cloud, c := made(t, 0, 1)
	cloud.FailNext("vnf", "UPDATE", "no valid host")
	c.patch(http.StatusAccepted, object{"parameters": nfv(1, "img2")})
	if s := c.await("vnf"); s != "UPDATE_FAILED" || !strings.Contains(cloud.Stacks()[0].Reason, "no valid host") {
		t.Fatal(cloud.AsRead("vnf"))
	}
	c.patch(http.StatusAccepted, object{"parameters": nfv(1, "img2")})
	if s := c.await("vnf"); s != "UPDATE_COMPLETE" {
		t.Fatal(cloud.AsRead("vnf"))
	}
	cloud.FailNext("vnf", "DELETE", "it hangs")
	c.ask(http.StatusNoContent, "DELETE", "orchestration", "/stacks/vnf/"+id(c, "vnf"), nil)
	if s := c.await("vnf"); s != "DELETE_FAILED" {
		t.Fatal(s)
	}
	c.ask(http.StatusNoContent, "DELETE", "orchestration", "/stacks/vnf/"+id(c, "vnf"), nil)
	if s := c.await("vnf"); s != "DELETE_COMPLETE" || len(cloud.Left()) > 0 {
		t.Errorf("%s, left %v", s, cloud.Left())
	}
}

func TestTokensExpireAndFaultsAreCounted(t *testing.T) {
	cloud, c := fake(t, 0)
	connect(t, cloud.ApplicationCredentialVIM()).ask(http.StatusOK, "GET", "orchestration", "/stacks", nil)
	cloud.ExpireTokens()
	c.ask(http.StatusUnauthorized, "GET", "compute", "/servers", nil)
	c = connect(t, cloud.VIM())
	cloud.Inject(openstacktest.Fault{Service: openstacktest.Nova, Status: http.StatusTooManyRequests, RetryAfter: 7, Times: 1})
	if r := c.ask(http.StatusTooManyRequests, "GET", "compute", "/servers", nil); r.header.Get("Retry-After") != "7" {
		t.Errorf("headers %v", r.header)
	}
	c.ask(http.StatusOK, "GET", "compute", "/servers", nil)
	cloud.Down(openstacktest.Heat)
	if r := c.send("GET", c.endpoints["orchestration"]+"/stacks", nil); r.status != 0 {
		t.Errorf("a service that is down answers %d", r.status)
	}
	if n := cloud.Requests(openstacktest.Nova); n != 3 {
		t.Errorf("Nova was asked %d times", n)
	}
}

func TestThousandsOfStacksAreCheap(t *testing.T) {
	_, c := fake(t, 0)
	began := time.Now()
	for i := range 400 {
		c.ask(http.StatusCreated, "POST", "orchestration", "/stacks", body(fmt.Sprintf("vnf-%d", i), 2, "img1"))
	}
	if n := len(c.ask(http.StatusOK, "GET", "orchestration", "/stacks", nil).body["stacks"].([]any)); n != 400 {
		t.Errorf("%d stacks are listed", n)
	}
	first := c.ask(http.StatusOK, "GET", "compute", "/servers/detail", nil)
	if n, links := len(first.body["servers"].([]any)), first.body["servers_links"]; n != 1000 || links == nil {
		t.Errorf("Nova lists %d servers at once, and leads on to %v", n, links)
	}
	t.Logf("400 stacks of 1200 servers: %v", time.Since(began))
}
