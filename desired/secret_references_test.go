package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestTheReferencesOfAnInstanceAreAllThatSomebodyMayResolve(t *testing.T) {
	in := &desired.Instance{
		VIMConnections: map[string]desired.VIMConnection{"v": {
			InterfaceInfo: map[string]string{"endpoint": "https://x", "ssl_ca_cert": "file:/ca"}, AccessInfo: map[string]string{"bearer_token": "env:T", "username": "u"}}},
		Params: map[string]any{"b": "file:/b", "a": []any{"x", map[string]any{"deep": "age:YQ"}}, "relative": "file:b", "n": 1},
		Update: desired.UpdatePolicy{Coordinate: desired.Coordination{Params: map[string]any{"c": map[string]string{"d": "env:C"}}}},
	}
	want := []desired.Reference{
		{Field: "vimConnectionInfo.v.accessInfo.bearer_token", Ref: "env:T", Connection: "v", Endpoint: "https://x"}, {Field: "vimConnectionInfo.v.interfaceInfo.ssl_ca_cert", Ref: "file:/ca", Connection: "v", Endpoint: "https://x"},
		{Field: "params.a[1].deep", Ref: "age:YQ"}, {Field: "params.b", Ref: "file:/b"}, {Field: "update.coordinate.params.c.d", Ref: "env:C"},
	}
	if diff := cmp.Diff(want, in.References()); diff != "" {
		t.Error(diff)
	}
}

func TestAConnectionToKubernetesIsNoKubeconfig(t *testing.T) {
	for _, key := range []string{"kubeconfig", "kubeConfig", "exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "certificate-authority", "proxy-url"} {
		for _, c := range []desired.VIMConnection{
			{VimType: "kubernetes", InterfaceInfo: map[string]string{key: "x"}}, {VimType: desired.VIMKubernetes, AccessInfo: map[string]string{key: "x"}},
			{VimType: "kubernetes", Extra: map[string]any{key: map[string]any{}}},
		} {
			if found, remedy := c.OfKubeconfig(); found == "" || remedy == "" {
				t.Errorf("%s is taken: %+v", key, c)
			}
		}
	}
	for _, c := range []desired.VIMConnection{
		{VimType: "kubernetes", InterfaceInfo: map[string]string{"endpoint": "https://x", "ssl_ca_cert": "c"}, AccessInfo: map[string]string{"client_cert": "c", "client_key": "k", "bearer_token": "t"}},
		{VimType: "openstack", Extra: map[string]any{"exec": "x"}},
	} {
		if found, _ := c.OfKubeconfig(); found != "" {
			t.Errorf("%+v: %s", c, found)
		}
	}
}
