package kubecluster

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/hooks/kubecluster/params"
)

// goodParams are the least that is needed.
func goodParams() map[string]any {
	return map[string]any{params.Name: map[string]any{
		"master_node": map[string]any{"vdu_id": "M", "ssh_cp_name": "CP", "nic_cp_name": "CP", "username": "u", "password": "secret-1"},
		"worker_node": map[string]any{"vdu_id": "W", "ssh_cp_name": "CP", "nic_cp_name": "CP", "username": "u", "password": "secret-2"},
	}}
}

func TestHooksWithoutWorkSucceedAtOnce(t *testing.T) {
	for _, hook := range []string{"terminate_start", "terminate_end", "modify_information_end", "change_current_package_start",
		"change_external_connectivity_rollback_end", "instantiate_rollback_start", "instantiate_rollback_end"} {
		if _, err := runHere(t, hooks.Input{Hook: hook}); err != nil {
			t.Errorf("%s: %v", hook, err)
		}
	}
	// Nothing that goes or comes is the cluster's.
	for _, hook := range []string{"instantiate_start", "scale_start", "scale_end", "scale_rollback_start", "scale_rollback_end", "heal_start", "heal_end"} {
		in := hooks.Input{Hook: hook, Params: goodParams()}
		in.Added = []hooks.Target{{VduID: "OTHER", Unit: hooks.Unit{ID: "x", Name: "x", Ready: true}}}
		in.Removed = in.Added
		if _, err := runHere(t, in); err != nil {
			t.Errorf("%s: %v", hook, err)
		}
		in.Params = nil
		if _, err := runHere(t, in); err == nil {
			t.Errorf("%s: without parameters, it succeeds", hook)
		}
	}
}

func TestARunGivesUpByItselfBeforeItIsEnded(t *testing.T) {
	in := hooks.Input{Hook: "scale_end", Params: goodParams(), TimeoutSeconds: 3}
	// Nobody has an address of that subnet (RFC 5737).
	at := func(vdu, address string) hooks.Target {
		return hooks.Target{VduID: vdu, Unit: hooks.Unit{ID: address, Name: address, Ready: true, Addresses: map[string][]string{"CP": {address}}}}
	}
	master, worker := at("M", "192.0.2.1"), at("W", "192.0.2.2")
	in.VDUs = []hooks.VDU{{ID: "M", Old: []hooks.Unit{master.Unit}}, {ID: "W", New: []hooks.Unit{worker.Unit}}}
	in.Added = []hooks.Target{worker}
	if _, err := runHere(t, in); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("it doesn't say who was asked: %v", err)
	}
}

func runHere(t *testing.T, in hooks.Input) (hooks.Output, error) {
	t.Helper()
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err = Run(t.Context(), bytes.NewReader(text), &stdout, &stderr)
	var out hooks.Output
	if e := json.Unmarshal(stdout.Bytes(), &out); e != nil {
		t.Fatalf("%s: standard output %q: %v", in.Hook, &stdout, e)
	}
	return out, err
}

func TestNodesAreNamedByTheirAddressesWithoutCollision(t *testing.T) {
	d := &driver{}
	at := func(name string, r *role, address string) machine {
		return machine{Unit: hooks.Unit{ID: name, Name: name, Addresses: map[string][]string{"CP": {"203.0.113.9", address}}}, role: r}
	}
	worker, master := &role{Role: params.Role{Field: "worker_node", NicCP: "CP"}}, &role{Role: params.Role{Field: "master_node", NicCP: "CP"}}
	node := func(name, address string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		return n
	}
	six := at("e", worker, "fd00::7")
	six.Addresses["CP"] = []string{"fd00::7"}
	all := []machine{at("m", master, "10.0.1.5"), at("a", worker, "10.0.1.5"), at("b", worker, "10.0.2.5"), at("c", worker, "10.1.2.5"), at("d", worker, "10.0.9.7"),
		six}
	got, err := d.named(all, []corev1.Node{node("worker5", "10.0.7.5"), node("given-by-hand", "10.0.9.7")})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"m": "master5", "a": "worker1-5", "b": "worker2-5", "c": "worker1-2-5", "d": "given-by-hand", "e": "worker-fd00--7"}
	if !maps.Equal(got, want) {
		t.Errorf("the names are %v, want %v", got, want)
	}
}

// A kubeconfig comes from a machine of the VNF: it must not make this machine do anything.
func TestOfAKubeconfigOnlyWhatItHoldsIsTaken(t *testing.T) {
	harm := `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"https://h:6443"}}],"users":[{"name":"u","user":{"token":"t","tokenFile":"/etc/passwd"}}]}`
	if _, _, err := readConf([]byte(harm)); err == nil || !strings.Contains(err.Error(), `users["u"].user.tokenFile names a file`) {
		t.Errorf("the field at fault isn't named: %v", err)
	}
	for name, conf := range map[string]string{
		"a command":  `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"https://h:6443"}}],"users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"touch"}}}]}`,
		"a file":     `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"https://h:6443","certificate-authority":"/etc/passwd"}}],"users":[{"name":"u","user":{"tokenFile":"/etc/passwd"}}]}`,
		"no TLS":     `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"http://h:6443"}}],"users":[{"name":"u","user":{"token":"t"}}]}`,
		"no context": `{"clusters":[]}`,
		"no sense":   "\tx: [",
	} {
		if c, _, err := readConf([]byte(conf)); err == nil {
			t.Errorf("%s is taken: %v", name, c.Host)
		}
	}
}
