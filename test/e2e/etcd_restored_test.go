package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// ownPlane is a control plane of this test alone, as its etcd is restored.
type ownPlane struct {
	*testing.T
	*kubeenv.Plane
}

func newOwnPlane(t *testing.T) *ownPlane {
	t.Helper()
	return &ownPlane{t, kubeenv.StartPlane(t, filepath.Join(process.ShortTempDir(t), "plane"), "--nodes", "1")}
}

func (p *ownPlane) signal(server string, s syscall.Signal) {
	p.Helper()
	if err := p.Signal(server, s); err != nil {
		p.Fatal(err)
	}
}

// copyEtcd copies the store as it is at one moment.
func (p *ownPlane) copyEtcd() {
	p.Helper()
	p.signal("etcd", syscall.SIGSTOP)
	err := os.CopyFS(filepath.Join(p.Dir, "etcd.copy"), os.DirFS(filepath.Join(p.Dir, "etcd")))
	p.signal("etcd", syscall.SIGCONT)
	if err != nil {
		p.Fatal(err)
	}
}

// restoreEtcd puts the copy in the place of the store, and starts all servers again, as one is told to.
func (p *ownPlane) restoreEtcd() {
	p.Helper()
	servers := []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"}
	for _, server := range servers {
		p.signal(server, syscall.SIGKILL)
	}

	store := filepath.Join(p.Dir, "etcd")
	if err := errors.Join(os.Rename(store, store+".lost"), os.Rename(store+".copy", store), p.Restart(p.Context(), servers...)); err != nil {
		p.Fatal(err)
	}
}

func TestAnEtcdRestoredFromACopyIsShownAndRepaired(t *testing.T) {
	testenv.Real(t, "a control plane")
	t.Parallel()
	p := newOwnPlane(t)
	kubeconfig, config := p.Kubeconfig(), p.RestConfig(t)
	s := serve(t, filepath.Join(t.TempDir(), "data"))
	if err := s.equipFor(t.TempDir(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	b := benchAt(t, s, config, kubeconfig)
	scaled, shown, made := uuid.NewString(), uuid.NewString(), uuid.NewString()
	at := map[string]string{}
	for _, id := range []string{scaled, shown, made} {
		at[id] = kubeenv.Namespace(t, kubeconfig)
	}
	d := b.clone(t, "desired.git")
	write := func(id, more string) {
		d.Write("instances/"+id+"/vnf.yaml", fmt.Sprintf("id: %s\nname: %[1]s\nvnfdId: %s\nflavour: simple\nparams: {namespace: %s}\n%s", id, plain, at[id], more))
	}
	write(scaled, "levels: {web_aspect: 0}\n")
	write(shown, "drift: report\nlevels: {web_aspect: 0}\n")
	d.Push("Run")
	b.awaitHistory(scaled, "INSTANTIATE COMPLETED")
	b.awaitHistory(shown, "INSTANTIATE COMPLETED")
	pid := s.process.Pid()
	p.copyEtcd()

	d.Pull()
	write(scaled, "levels: {web_aspect: 2}\n")
	write(shown, "drift: report\nlevels: {web_aspect: 2}\n")
	write(made, "")
	d.Push("Scale, and run one more")
	b.awaitHistory(scaled, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	b.awaitHistory(shown, "INSTANTIATE COMPLETED, SCALE COMPLETED")
	b.awaitHistory(made, "INSTANTIATE COMPLETED")
	p.restoreEtcd()

	b.awaitHistory(scaled, "INSTANTIATE COMPLETED, SCALE COMPLETED, HEAL COMPLETED")
	b.awaitHistory(made, "INSTANTIATE COMPLETED, HEAL COMPLETED")
	for id, units := range map[string]int32{scaled: 3, made: 1} {
		web, err := b.api.AppsV1().Deployments(at[id]).Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil || web.Status.ReadyReplicas != units {
			t.Errorf("after the repair %d units are ready, want %d (%v)", web.Status.ReadyReplicas, units, err)
		}
	}
	kit.Eventually(t, func() error {
		if n := len(b.show(t, shown).list("instantiatedVnfInfo", "vnfcResourceInfo")); n != 1 {
			return fmt.Errorf("%d VNFCs are shown, and the store has 1", n)
		}
		for _, x := range decodeList(t, b.must(t, 200, "GET", "/jibe/v1/drift", nil).Body) {
			if x.text("instance") == shown && x.text("state") == "reported" {
				return nil
			}
		}
		return fmt.Errorf("what the restore took is no drift")
	})
	if s.process.Pid() != pid {
		t.Error("Jibe was started again")
	}
}
