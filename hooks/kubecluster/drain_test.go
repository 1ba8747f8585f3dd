package kubecluster

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
)

// The answers are those of API servers of these versions, as far as they are about evictions:
// none older than 1.22 can be built here.
func TestAClusterWithoutEvictionsOfPolicyV1IsRefusedByItsVersion(t *testing.T) {
	for version, test := range map[string]struct {
		eviction string // group and version of pods/eviction
		why      string
	}{
		"v1.16.0":  {"v1beta1", "runs Kubernetes v1.16.0, which has no eviction by policy/v1: 1.22 or newer is needed"},
		"v1.21.14": {"v1beta1", "runs Kubernetes v1.21.14, which has no eviction by policy/v1: 1.22 or newer is needed"},
		"v1.22.0":  {"v1", ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.Method + " " + r.URL.Path {
			case "GET /api/v1":
				fmt.Fprintf(w, `{"kind":"APIResourceList","groupVersion":"v1","resources":[
					{"name":"pods","singularName":"","namespaced":true,"kind":"Pod","verbs":["create","delete","get","list"]},
					{"name":"pods/eviction","singularName":"","namespaced":true,"group":"policy","version":%q,"kind":"Eviction","verbs":["create"]}]}`, test.eviction)
			case "GET /version":
				fmt.Fprintf(w, `{"major":"1","minor":"x","gitVersion":%q}`, version)
			default:
				t.Errorf("%s: the cluster is asked for %s %s", version, r.Method, r.URL.Path)
				http.NotFound(w, r)
			}
		}))
		client, err := newClients(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		c := &cluster{clients: client, master: machine{Unit: hooks.Unit{Name: "server-1"}, role: &role{Role: params.Role{Field: "master_node"}}, vduID: "MasterVDU"}}
		err = c.evicts()
		if (err == nil) != (test.why == "") || err != nil && !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v", version, err)
		}
		server.Close()
	}
}
