package params

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// goodParams are the least that is needed, and change what is otherwise, by path; nil takes
// one away.
func goodParams(change map[string]any) map[string]any {
	p := map[string]any{
		"script_path": "Scripts/install.sh",
		"master_node": map[string]any{"vdu_id": "M", "ssh_cp_name": "CP", "nic_cp_name": "CP", "username": "u", "password": "secret-1"},
		"worker_node": map[string]any{"vdu_id": "W", "ssh_cp_name": "CP", "nic_cp_name": "CP", "username": "u", "password": "secret-2"},
	}
	for path, value := range change {
		in := p
		names := strings.Split(path, ".")
		for _, n := range names[:len(names)-1] {
			if in[n] == nil {
				in[n] = map[string]any{}
			}
			in = in[n].(map[string]any)
		}
		if in[names[len(names)-1]] = value; value == nil {
			delete(in, names[len(names)-1])
		}
	}
	return map[string]any{Name: p}
}

func TestAWrongParameterIsNamed(t *testing.T) {
	if _, _, err := Read(map[string]any{}); err == nil || !strings.Contains(err.Error(), "params."+Name+" is missing") {
		t.Errorf("none at all: %v", err)
	}
	for path, test := range map[string]struct {
		value any
		why   string
	}{
		"script_path":                      {7, "must be text"},
		"master_node":                      {nil, "is missing"},
		"worker_node":                      {"WorkerVDU", "must be an object"},
		"worker_node.vdu_id":               {nil, "no aspect_id in its place"},
		"master_node.ssh_cp_name":          {nil, "is missing"},
		"master_node.nic_cp_name":          {7, "must be text"},
		"worker_node.username":             {"", "is empty"},
		"worker_node.password":             {nil, "no ssh.identity"},
		"worker_node.pasword":              {"secret-3", "isn't known"},
		"master_node.pod_cidr":             {"10.244.0.0", "must be a subnet"},
		"drain_timeout":                    {"soon", "must be a time"},
		"join_timeout":                     {0.0, "must be a time"},
		"parallel":                         {"many", "must be a whole number from 1 to 50"},
		"ssh.accept_new":                   {"perhaps", "must be true or false"},
		"ssh.jump.host":                    {nil, "is missing"},
		"ssh.port":                         {70000.0, "must be a whole number"},
		"drain_timout":                     {"5m", "isn't known"},
		"proxy.private_registry_to":        {"x", "isn't known"},
		"private_registry_connection_info": {[]any{}, "isn't known"},
		"endpoint":                         {"10.0.0.100", "must be host:port"},
		"master_node.cluster_fip_name":     {"vip_CP_floating_ip", "load_balancer.floating_address"},
		"load_balancer.virtual_address":    {"vip", "must be an IP address"},
		"load_balancer.port":               {6443.0, "the API server's own"},
		"kubernetes_version":               {"1.29.4", "too old: the driver installs 1.30 and newer"},
		"artifacts":                        {"../other", "must be a path in the package"},
	} {
		change := map[string]any{path: test.value}
		if path == "ssh.jump.host" {
			change["ssh.jump.username"] = "u"
		}
		_, _, err := Read(goodParams(change))
		if err == nil || !strings.Contains(err.Error(), "params."+Name+"."+path+" ") || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s %v: %v", path, test.value, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret-") {
			t.Errorf("%s: a secret is told: %v", path, err)
		}
	}
}

func TestParametersOfOlderDriversAreRead(t *testing.T) {
	s, secrets, err := Read(goodParams(map[string]any{
		"vim_name": "kubernetes_vim", "master_node.cluster_cp_name": "VIP", "master_node.pod_cidr": "10.244.0.0/16", "master_node.cluster_cidr": "10.96.0.0/16",
		"proxy.http_proxy": "http://user:proxy-secret@proxy:80", "proxy.no_proxy": "10.0.0.1", "proxy.k8s_node_cidr": "10.10.0.0/24",
		"parallel": "7",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Parallel != 7 || s.DrainTime != DefaultDrain || s.Kubeconfig != DefaultKubeconfig {
		t.Errorf("they are %+v", s)
	}
	if got := s.Proxy["NO_PROXY"]; got != "10.0.0.1,10.10.0.0/24,10.244.0.0/16,10.96.0.0/16" {
		t.Errorf("NO_PROXY is %q", got)
	}
	for _, secret := range []string{"secret-1", "secret-2", "http://user:proxy-secret@proxy:80"} {
		if !slices.Contains(secrets, secret) {
			t.Errorf("%s isn't hidden", secret)
		}
	}
}

// The parameters of the sample requests of document 002 and of the one that it builds on, as
// they are written there.
func TestTheParametersOfTheDocumentsAreTakenAsTheyAreWritten(t *testing.T) {
	const sample = `{"k8s_cluster_installation_param": {
		"script_path": "Scripts/install_k8s_cluster.sh", "vim_name": "kubernetes_vim",
		"master_node": {"aspect_id": "master_instance", "ssh_cp_name": "masterNode_CP1", "nic_cp_name": "masterNode_CP1", "username": "ubuntu", "password": "ubuntu",
			"pod_cidr": "192.168.0.0/16", "cluster_cidr": "10.199.187.0/24", "cluster_cp_name": "masterNode_CP1"},
		"worker_node": {"aspect_id": "worker_instance", "ssh_cp_name": "workerNode_CP2", "nic_cp_name": "workerNode_CP2", "username": "ubuntu", "password": "ubuntu"},
		"proxy": {"http_proxy": "http://user1:password1@host1:80", "https_proxy": "https://user2:password2@host2:443", "no_proxy": "192.168.246.0/24,10.0.0.1", "k8s_node_cidr": "10.10.0.0/24"}},
		"lcm-operation-user-data": "./UserData/k8s_cluster_user_data.py", "lcm-operation-user-data-class": "KubernetesClusterUserData"}`
	for name, change := range map[string]func(in map[string]any){
		"as it is": func(map[string]any) {},
		"without a proxy, as text that is empty": func(in map[string]any) {
			in["proxy"] = map[string]any{"http_proxy": "", "https_proxy": "", "no_proxy": "", "k8s_node_cidr": ""}
		},
		"with three masters at a virtual address": func(in map[string]any) {
			m := in["master_node"].(map[string]any)
			m["cluster_cp_name"], m["cluster_fip_name"] = "vip_CP", "vip_CP_floating_ip"
			in["load_balancer"] = map[string]any{"floating_address": "203.0.113.7"}
		},
	} {
		var params map[string]any
		if err := json.Unmarshal([]byte(sample), &params); err != nil {
			t.Fatal(err)
		}
		change(params[Name].(map[string]any))
		if err := Accepts(params); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Accepts(map[string]any{"lcm-kubernetes-def-files": []any{}}); err == nil {
		t.Error("parameters of another VNF are taken")
	}
}

func TestMachinesGetWhatTheyLackFromOnePlace(t *testing.T) {
	for _, test := range []struct {
		change map[string]any
		why    string
	}{
		{map[string]any{"package_repository": "https://packages.test/ /"}, "package_repository_key is missing"},
		{map[string]any{"package_repository_key": "Files/key.asc"}, "package_repository is missing"},
		{map[string]any{"package_repository": "https://packages.test/ /", "package_repository_key": "Files/key.asc", "artifacts": "Files/node"}, "leave one out"},
		{map[string]any{"endpoint": "10.0.0.9:6443", "load_balancer.virtual_address": "10.0.0.100"}, "leave one out"},
	} {
		if err := Accepts(goodParams(test.change)); err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%v: %v", test.change, err)
		}
	}
	s, _, err := Read(goodParams(map[string]any{"kubernetes_version": "v1.33.2", "artifacts": "Files/node/", "load_balancer.virtual_address": "10.0.0.100"}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != "1.33.2" || s.Artifacts != "Files/node" || !s.Balancer.Wanted || s.Balancer.Port != DefaultBalancerPort {
		t.Errorf("they are %+v", s)
	}
}
