package openstacktest_test

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

// reality is a client of the real cloud that tests are given.
func reality(t *testing.T) *client {
	t.Helper()
	p, where, err := osenv.OpenStack(t).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, token: p.Token(), endpoints: map[string]string{}, slow: true}
	for _, kind := range []string{"orchestration", "compute", "network", "image", "volumev3"} {
		where.Type, where.Availability = kind, gophercloud.AvailabilityPublic
		if c.endpoints[kind], err = p.EndpointLocator(where); err != nil {
			t.Fatal(err)
		}
		c.endpoints[kind] = strings.TrimSuffix(c.endpoints[kind], "/")
	}
	return c
}

// The fake proves nothing unless it speaks as the real services do.
func TestAnswersHaveTheShapeOfTheRealOnes(t *testing.T) {
	want := shapes(t, reality(t))
	_, unreal := fake(t, 0)
	have := shapes(t, unreal)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if diff := cmp.Diff(want[name], have[name]); diff != "" {
			t.Errorf("%s: what is real (-) and what isn't (+):\n%s", name, diff)
		}
	}
}

// shapes are the keys and types of many answers of the cloud, on one stack that is made
// and deleted.
func shapes(t *testing.T, c *client) map[string][]string {
	name := fmt.Sprintf("shapes-%d", os.Getpid())
	got := map[string][]string{}
	note := func(what string, r reply) reply {
		got[what] = append([]string{fmt.Sprint("status ", r.status)}, shape("", r.body)...)
		return r
	}
	heat := func(want int, method, path string, body any) reply {
		return c.ask(want, method, "orchestration", path, body)
	}
	note("created", heat(http.StatusCreated, "POST", "/stacks", body(name, 1, "img1")))
	t.Cleanup(func() {
		c.send("DELETE", c.endpoints["orchestration"]+"/stacks/"+name+"/"+id(c, name), nil)
		if s := c.await(name); s != "DELETE_COMPLETE" {
			t.Errorf("the stack is %s in the end", s)
		}
	})
	note("created again", heat(http.StatusConflict, "POST", "/stacks", body(name, 1, "img1")))
	if s := c.await(name); s != "CREATE_COMPLETE" {
		t.Fatalf("the stack is %s", s)
	}
	note("stack", heat(http.StatusOK, "GET", "/stacks/"+name, nil))
	note("stacks", heat(http.StatusOK, "GET", "/stacks?name="+name, nil))
	for _, view := range []string{"files", "environment"} {
		note(view, heat(http.StatusOK, "GET", "/stacks/"+name+"/"+view, nil))
	}
	note("template", heat(http.StatusOK, "GET", "/stacks/"+name+"/template", nil))
	note("events", heat(http.StatusOK, "GET", "/stacks/"+name+"/events", nil))
	note("no stack", heat(http.StatusNotFound, "GET", "/stacks/none", nil))
	note("no resource", heat(http.StatusNotFound, "GET", "/stacks/"+name+"/"+id(c, name)+"/resources/none", nil))
	note("no such path", heat(http.StatusNotFound, "GET", "/stacks/"+name+"/resources/none", nil))
	note("updated", heat(http.StatusAccepted, "PATCH", "/stacks/"+name+"/"+id(c, name), object{"parameters": nfv(1, "img1")}))
	all := c.resources(name)
	for i, kind := range []string{"OS::Heat::AutoScalingGroup", "VDU1.yaml", "OS::Nova::Server", "OS::Neutron::Port"} {
		found := ofType(all, kind)
		if len(found) == 0 {
			t.Fatalf("no %s among the resources", kind)
		}
		got[fmt.Sprintf("resource %d", i)] = shape("", found[len(found)-1])
	}
	for what, bad := range map[string][2]string{
		"unknown type": {"OS::Neutron::Net}", "OS::Neutron::Nett}"}, "unknown image": {"image: img1", "image: none"}, "unknown flavour": {"m1.tiny", "none"},
		"unknown network": {"net0", "none"}, "wrong reference": {"get_resource: volume", "get_resource: none"}, "unknown property": {"{size: 1}", "{sizes: 1}"},
		"unknown parameter": {"{size: 1}", "{size: {get_param: none}}"},
	} {
		b := body(name+"-bad", 1, "img1")
		b["template"] = strings.Replace(groupTemplate, bad[0], bad[1], 1)
		r := note(what, heat(http.StatusBadRequest, "POST", "/stacks", b))
		got[what] = append(got[what], fmt.Sprint(r.body["error"].(object)["type"]))
	}
	servers(c, note, got)
	c.await(name)
	return got
}

func servers(c *client, note func(string, reply) reply, got map[string][]string) {
	for _, version := range []string{"2.1", "2.69", "2.93"} {
		r := c.ask(http.StatusOK, "GET", "compute", "/servers/detail", nil, "OpenStack-API-Version", "compute "+version)
		for _, s := range r.body["servers"].([]any) {
			s := s.(object)
			if meta, _ := s["metadata"].(object); meta["a"] == "b" {
				got["server at "+version] = withoutAddresses(shape("", s))
			}
		}
	}
	note("no server", c.ask(http.StatusNotFound, "GET", "compute", "/servers/none", nil))
	note("no such version", c.ask(http.StatusNotAcceptable, "GET", "compute", "/servers", nil, "OpenStack-API-Version", "compute 2.999"))
	note("no port", c.ask(http.StatusNotFound, "GET", "network", "/v2.0/ports/none", nil))
	note("no volume", c.ask(http.StatusNotFound, "GET", "volumev3", "/volumes/none", nil))
	note("no image", c.ask(http.StatusNotFound, "GET", "image", "/v2/images/none", nil))
	for service, path := range map[string]string{
		"compute": "/flavors/detail", "image": "/v2/images?name=img1", "network": "/v2.0/networks?name=net0", "volumev3": "/volumes/detail",
	} {
		r := c.ask(http.StatusOK, "GET", service, path, nil)
		for _, list := range r.body {
			if things, ok := list.([]any); ok && len(things) > 0 {
				got["first of "+service] = shape("", things[0])
			}
		}
	}
	right := c.token
	c.token = "wrong"
	for service, path := range map[string]string{"orchestration": "/stacks", "compute": "/servers", "network": "/v2.0/ports", "image": "/v2/images", "volumev3": "/volumes"} {
		note("401 of "+service, c.ask(http.StatusUnauthorized, "GET", service, path, nil))
	}
	c.token = right
}

func id(c *client, name string) string {
	return c.ask(http.StatusOK, "GET", "orchestration", "/stacks/"+name, nil).body["stack"].(object)["id"].(string)
}

// withoutAddresses leaves out what depends on the network's name.
func withoutAddresses(list []string) []string {
	return slices.DeleteFunc(list, func(s string) bool { return strings.HasPrefix(s, ".addresses") })
}

// shape is each path of keys in the value with the type of what stands there; null is of
// any type. What is the services' own affair (metadata of images, ids as keys) is left out.
func shape(at string, value any) []string {
	switch v := value.(type) {
	case object:
		var out []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if !strings.HasPrefix(k, "owner_specified") {
				out = append(out, shape(at+"."+k, v[k])...)
			}
		}
		return out
	case []any:
		if len(v) > 0 {
			return shape(at+"[]", v[0])
		}
		return []string{at}
	}
	return []string{at}
}
