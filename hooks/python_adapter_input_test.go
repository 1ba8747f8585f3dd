//go:build linux

package hooks_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/test/kit"
)

// given is what a script of the older contract is given of each input.
func given(t *testing.T, env map[string]string, inputs ...string) []object {
	t.Helper()

	// As bare as Jibe's: a KUBECONFIG of the test's own is none of the script's.
	bare := map[string]string{"PATH": os.Getenv("PATH"), "HOME": t.TempDir()}
	maps.Copy(bare, env)
	var cases []adapterCase
	for _, in := range inputs {
		cases = append(cases, adapterCase{Script: filepath.Join("testdata", "python_adapter", "tell.py"), Stdin: in, Env: bare})
	}

	var out []object
	for i, ended := range adapt(t, cases) {
		var told object
		if err := json.Unmarshal(ended.Stderr, &told); err != nil || ended.Code != 0 {
			t.Fatalf("input %d: exit status %d, %v: %s", i, ended.Code, err, ended.Stderr)
		}
		out = append(out, told)
	}

	return out
}

// at is what stands at the path; numbers are indexes of lists.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			m, _ := v.(object)
			v = m[p]
		case int:
			l, _ := v.([]any)
			if p >= len(l) {
				return nil
			}
			v = l[p]
		}
	}
	return v
}

// scaleIn is an input with everything that Jibe may give.
const scaleIn = `{
  "version": 1, "hook": "HOOK", "interrupted": false, "isRollback": false,
  "operation": {"id": "op-1", "type": "SCALE", "attempt": 1, "params": {"type": "SCALE_IN", "aspectId": "workers",
    "additionalParams": {"cluster": {"master": {"username": "root"}, "workers": [{"username": "a"}]}, "token": "***"}}},
  "instance": {"id": "vnf-1", "name": "cache", "vnfdId": "d-1", "flavour": "simple", "state": "instantiated", "levels": {"workers": 1, "b": 0},
    "vnfConfigurableProperties": {"isAutoscaleEnabled": true}, "metadata": {"m": "2"}, "extensions": {"e": 1}},
  "instanceBefore": {"id": "vnf-1", "name": "cache", "vnfdId": "d-1", "flavour": "simple", "state": "instantiated", "levels": {"workers": 2, "b": 0},
    "metadata": {"m": "1"}},
  "before": {"vnfdId": "d-1", "vnfdVersion": "1.0", "vnfProvider": "Co", "vnfProductName": "Cache", "vnfSoftwareVersion": "7", "package": "t"},
  "vdus": [{"id": "CACHE", "old": [
      {"id": "s1@1", "name": "s1", "owner": "Stack/vnf-1", "ready": true, "created": "2025-03-01T10:00:00Z", "address": "192.0.2.1",
       "addresses": {"CP2": ["2001:db8::1"], "CP1": ["10.0.0.1", "192.0.2.1"]}, "metadata": {"stack_id": "vnf-1/top", "vdu_idx": "0"}},
      {"id": "s2@1", "name": "s2", "owner": "Stack/vnf-1", "ready": true, "created": "2025-03-01T10:00:00Z", "metadata": {"stack_id": "vnf-1/top", "vdu_idx": "1"}},
      {"id": "s3@2", "name": "s3", "owner": "Stack/vnf-1", "ready": false, "created": "2025-03-02T10:00:00Z", "metadata": {"stack_id": "vnf-1/top", "vdu_idx": "2"}}],
    "new": []}],
  "added": [], "removed": [{"vduId": "CACHE", "unit": {"id": "s3@2", "name": "s3", "owner": "Stack/vnf-1", "ready": false}}],
  "grant": {"vnfInstanceId": "vnf-1", "vnfLcmOpOccId": "op-1", "operation": "SCALE", "addResources": [],
    "removeResources": [{"id": "r-1", "type": "COMPUTE", "vduId": "CACHE"}, {"id": "r-2", "type": "LINKPORT", "vduId": "CP1"}]},
  "handOver": {"drained": ["s3"]}, "objects": [{"key": "Stack/vnf-1"}], "services": [],
  "params": {"cluster": {"master": {"username": "root", "password": "p1"}, "workers": [{"username": "a", "password": "p2"}]}, "token": "t1", "size": 3},
  "vim": {"name": "cloud", "type": "ETSINFV.OPENSTACK_KEYSTONE.V_3", "endpoint": "http://keystone/v3"}
}`

func TestAnOlderScriptIsToldOfTheInstanceAsItWasAndAsItIs(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(clouds, []byte(`{"clouds":{"openstack":{"region_name":"R","auth":{"auth_url":"http://keystone/v3","username":"u","password":"p",
		"project_name":"nfv","user_domain_name":"Default","project_domain_id":"default"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	names := func(v any) (out []string) {
		for _, u := range at(v, "vnf_instance", "instantiatedVnfInfo", "vnfcResourceInfo").([]any) {
			out = append(out, at(u, "id").(string))
		}
		return out
	}
	start := given(t, map[string]string{"OS_CLIENT_CONFIG_FILE": clouds}, strings.Replace(scaleIn, "HOOK", "scale_start", 1))[0]
	if diff := cmp.Diff([]string{"s3", "s2", "s1"}, names(start)); diff != "" {
		t.Error("the newest come first", diff)
	}
	end := given(t, nil, strings.Replace(scaleIn, "HOOK", "scale_end", 1))[0]
	if diff := cmp.Diff([]string{"s2", "s1"}, names(end)); diff != "" {
		t.Error(diff)
	}
	info := []any{"vnf_instance", "instantiatedVnfInfo"}
	for _, x := range []struct {
		of   object
		path []any
		want any
	}{
		{start, []any{"operation"}, "scale_start"},
		{start, []any{"request"}, object{"type": "SCALE_IN", "aspectId": "workers", "numberOfSteps": 1.0, "additionalParams": object{
			"cluster": object{"master": object{"username": "root", "password": "p1"}, "workers": []any{object{"username": "a", "password": "p2"}}}, "token": "t1"}}},
		{start, []any{"user_script_err_handling_data"}, object{"drained": []any{"s3"}}},
		{start, []any{"new_csar_dir"}, nil},
		{start, []any{"grant_request", "removeResources"}, []any{
			object{"id": "r-1", "type": "COMPUTE", "resourceTemplateId": "CACHE",
				"resource": object{"vimConnectionId": "cloud", "resourceId": "s3", "vimLevelResourceType": "OS::Nova::Server"}},
			object{"id": "r-2", "type": "LINKPORT", "resourceTemplateId": "CP1"}}},
		{start, []any{"grant_response", "removeResources"}, []any{object{"resourceDefinitionId": "r-1"}, object{"resourceDefinitionId": "r-2"}}},
		{start, []any{"vnf_instance", "metadata"}, object{"m": "1"}},
		{end, []any{"vnf_instance", "metadata"}, object{"m": "2"}},
		{end, []any{"vnf_instance", "extensions"}, object{"e": 1.0}},
		{end, []any{"vnf_instance", "vnfConfigurableProperties"}, object{"isAutoscaleEnabled": true}},
		{end, []any{"vnf_instance", "vnfdVersion"}, "1.0"},
		{end, []any{"vnf_instance", "instantiationState"}, "INSTANTIATED"},
		{end, append(info, "flavourId"), "simple"},
		{end, append(info, "vnfState"), "STARTED"},
		{start, append(info, "scaleStatus"), []any{object{"aspectId": "b", "scaleLevel": 0.0}, object{"aspectId": "workers", "scaleLevel": 2.0}}},
		{end, append(info, "scaleStatus", 1, "scaleLevel"), 1.0},
		{end, append(info, "vnfcInfo", 1), object{"id": "CACHE-s1", "vduId": "CACHE", "vnfcResourceInfoId": "s1", "vnfcState": "STARTED"}},
		{end, append(info, "vnfcResourceInfo", 1), object{"id": "s1", "vduId": "CACHE",
			"computeResource": object{"vimConnectionId": "cloud", "resourceId": "s1", "vimLevelResourceType": "OS::Nova::Server"},
			"metadata":        object{"stack_id": "vnf-1/top", "vdu_idx": "0", "creation_time": "2025-03-01T10:00:00Z", "address": "192.0.2.1"},
			"vnfcCpInfo": []any{
				object{"id": "CP1-s1", "cpdId": "CP1", "cpProtocolInfo": []any{object{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": object{
					"ipAddresses": []any{object{"type": "IPV4", "addresses": []any{"10.0.0.1", "192.0.2.1"}}}}}}},
				object{"id": "CP2-s1", "cpdId": "CP2", "cpProtocolInfo": []any{object{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": object{
					"ipAddresses": []any{object{"type": "IPV6", "addresses": []any{"2001:db8::1"}}}}}}}}}},
		{start, append(info, "metadata"), object{"m": "1", "stack_id": "top", "tenant": "nfv"}},
		{start, []any{"vnf_instance", "vimConnectionInfo"}, object{"cloud": object{"vimId": "cloud", "vimType": "ETSINFV.OPENSTACK_KEYSTONE.V_3",
			"interfaceInfo": object{"endpoint": "http://keystone/v3"},
			"accessInfo":    object{"username": "u", "password": "p", "project": "nfv", "region": "R", "userDomain": "Default", "projectDomain": "default"}}}},
	} {
		if diff := cmp.Diff(x.want, at(x.of, x.path...)); diff != "" {
			t.Errorf("%v of %v: %s", x.path, x.of["operation"], diff)
		}
	}
}

func TestAnOlderScriptIsToldOfPodsAndOfTheMomentsOfAnInstance(t *testing.T) {
	kit.Long(t)
	t.Parallel()
	kubeconfig := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(kubeconfig, []byte(`{"clusters":[{"name":"vim","cluster":{"server":"https://10.0.0.1:6443","certificate-authority-data":"UEVN"}}],
		"users":[{"name":"vim","user":{"token":"t"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	in := func(hook, operation, unit string) string {
		return `{"hook": "` + hook + `", "operation": {"id": "op-1", "type": "` + operation + `", "params": {"flavourId": "small"}}, "instance": {"id": "vnf-1", "namespace": "ns"},
			"after": {"vnfdId": "d-1", "package": "t"}, "vdus": [{"id": "WEB", "old": [], "new": [` + unit + `]}], "objects": [], "services": [],
			"params": {"lcm-kubernetes-def-files": ["a.yaml"]}, "vim": {"name": "kube", "type": "ETSINFV.KUBERNETES.V_1"}}`
	}
	pod := `{"id": "uid-1", "name": "web-1", "owner": "Deployment/ns/web", "ready": true, "metadata": {"creationTime": "2025-03-01T10:00:00Z"}}`
	end := given(t, map[string]string{"KUBECONFIG": kubeconfig}, in("instantiate_end", "INSTANTIATE", pod))[0]
	want := object{"flavourId": "small", "vnfState": "STARTED", "scaleStatus": []any{},
		"vnfcResourceInfo": []any{object{"id": "web-1", "vduId": "WEB", "metadata": object{"creationTime": "2025-03-01T10:00:00Z", "creation_time": "2025-03-01T10:00:00Z"},
			"computeResource": object{"vimConnectionId": "kube", "resourceId": "web-1", "vimLevelResourceType": "Deployment"}}},
		"vnfcInfo": []any{object{"id": "WEB-web-1", "vduId": "WEB", "vnfcResourceInfoId": "web-1", "vnfcState": "STARTED"}},
		"metadata": object{"namespace": "ns", "tenant": "ns", "lcm-kubernetes-def-files": []any{"a.yaml"}}}
	if diff := cmp.Diff(want, at(end, "vnf_instance", "instantiatedVnfInfo")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(object{"kube": object{"vimId": "kube", "vimType": "ETSINFV.KUBERNETES.V_1", "accessInfo": object{"bearer_token": "t"},
		"interfaceInfo": object{"endpoint": "https://10.0.0.1:6443", "ssl_ca_cert": "PEM"}}}, at(end, "vnf_instance", "vimConnectionInfo")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(object{"flavourId": "small", "additionalParams": object{"lcm-kubernetes-def-files": []any{"a.yaml"}}}, end["request"]); diff != "" {
		t.Error("the parameters of an operation that a commit asked for", diff)
	}
	moments := []struct {
		hook, operation, state string
		info                   any
		grant                  bool
	}{
		{"instantiate_start", "INSTANTIATE", "NOT_INSTANTIATED", nil, true},
		{"instantiate_rollback_start", "INSTANTIATE", "NOT_INSTANTIATED", nil, true},
		{"instantiate_end", "INSTANTIATE", "INSTANTIATED", "STARTED", true},
		{"terminate_start", "TERMINATE", "INSTANTIATED", "STARTED", true},
		{"terminate_end", "TERMINATE", "NOT_INSTANTIATED", "STOPPED", true},
		{"modify_information_start", "MODIFY_INFO", "INSTANTIATED", "STARTED", false},
	}
	var inputs []string
	for _, x := range moments {
		inputs = append(inputs, in(x.hook, x.operation, ""))
	}
	for i, got := range given(t, nil, inputs...) {
		x := moments[i]
		if s := at(got, "vnf_instance", "instantiationState"); s != x.state {
			t.Errorf("%s: %v", x.hook, s)
		}
		if s := at(got, "vnf_instance", "instantiatedVnfInfo", "vnfState"); s != x.info {
			t.Errorf("%s: %v", x.hook, s)
		}
		if (got["grant_request"] != nil) != x.grant || (got["grant_response"] != nil) != x.grant {
			t.Errorf("%s: grant %v", x.hook, got["grant_request"])
		}
		keys := []string{"grant_request", "grant_response", "operation", "request", "tmp_csar_dir", "user_script_err_handling_data", "vnf_instance"}
		var has []string
		for k := range got {
			has = append(has, k)
		}
		slices.Sort(has)
		if diff := cmp.Diff(keys, has); diff != "" {
			t.Errorf("%s: %s", x.hook, diff)
		}
	}
}
