package kubecluster

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/hooks"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/netns"
	"github.com/jibe-vnfm/jibe/test/nodes"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// Everything on these machines is real: kubeadm, kubelets, containerd, etcd, haproxy and
// keepalived. The driver builds the cluster and heals one of its masters.
func TestAMasterOfThreeIsHealedWhileTheirAddressAnswers(t *testing.T) {
	testenv.Chaos(t, "machines")
	testenv.Program(t, "keepalived", "keepalived")
	testenv.Program(t, "haproxy", "haproxy")
	m := nodes.Need(t)
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(haPackage)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "network.yaml"), nodes.Manifest(), 0o644); err != nil {
		t.Fatal(err)
	}
	s := newSiteOf(t, "10.208.5.0/24", dir, func(spec *netns.Spec) {
		m.Outfit(spec)
		// keepalived tells nobody but systemd that it runs.
		spec.Files["/etc/systemd/system/keepalived.service.d/10-test.conf"] = netns.File{Data: []byte("[Service]\nType=simple\n")}
	})
	const virtual = "10.208.5.200"
	master := s.w.params["master_node"].(map[string]any)
	master["cluster_cp_name"], master["pod_cidr"] = "vip_CP", nodes.PodCIDR
	delete(s.w.params, "script_path")
	s.w.params["cni"], s.w.params["join_timeout"], s.w.params["ignore_preflight_errors"] = "network.yaml", "15m", nodes.IgnoreErrors
	s.w.links = vipLinks(t, "vip_CP", virtual)

	s.begin()
	masters, worker := s.machines("MasterVDU", 3), s.machine("WorkerVDU")
	s.must(s.input("instantiate_start", nil, nil))
	out := s.must(s.input("instantiate_end", append(slices.Clone(masters), worker), nil))
	s.w.units = append(slices.Clone(masters), worker)
	if out.Metadata[metaEndpoint] != virtual+":16443" || out.VIMs["kubernetes_vim"] == nil || out.VIMs["kubernetes_vim"].Endpoint != "https://"+virtual+":16443" {
		t.Errorf("the cluster is at %v, and the VIM is %+v", out.Metadata[metaEndpoint], out.VIMs)
	}
	s.connect(masters[0])
	s.want("master2 master3 master4 worker5")
	s.members("master2", "master3", "master4")

	// The one that goes has the virtual address, and may have begun the cluster.
	victim := masters[0]
	for _, one := range masters {
		if out, err := s.host(one).Run(t.Context(), nil, "ip", "-o", "address", "show", "to", virtual); err == nil && out != "" {
			victim = one
		}
	}
	stop := s.asked("https://" + virtual + ":16443/readyz")
	s.begin()
	start := s.must(s.input("heal_start", nil, []hooks.Target{victim}))
	s.remove(victim)
	successor := s.machine("MasterVDU")
	end := s.input("heal_end", []hooks.Target{successor}, gone([]hooks.Target{victim}))
	end.HandOver = start.HandOver
	s.must(end)
	s.w.units = append(s.w.units, successor)
	stop()

	var want []string
	for _, one := range append(s.w.units[:len(s.w.units):len(s.w.units)], worker) {
		if one.VduID == "MasterVDU" {
			want = append(want, strings.Replace(workerName(one), "worker", "master", 1))
		}
	}
	s.members(want...)
	s.want(strings.Join(want, " ") + " worker5")
	for _, one := range s.w.units {
		if one.VduID != "MasterVDU" {
			continue
		}
		conf, err := s.host(one).ReadFile("/etc/haproxy/haproxy.cfg")
		if err != nil || strings.Contains(string(conf), " "+victim.Unit.Address+":6443") || !strings.Contains(string(conf), " "+successor.Unit.Address+":6443") {
			t.Errorf("haproxy of %s isn't told who the masters are: %s, %v", one.Unit.Name, conf, err)
		}
	}
}

// members asserts which masters etcd counts on, all of which vote.
func (s *site) members(want ...string) {
	s.Helper()
	kit.Eventually(s, func() error {
		pods, err := s.CoreV1().Pods("kube-system").List(s.Context(), metav1.ListOptions{LabelSelector: "component=etcd"})
		if err != nil {
			return err
		}
		var names []string
		for i := range pods.Items {
			if counts(&pods.Items[i]) {
				names = append(names, strings.TrimPrefix(pods.Items[i].Name, "etcd-"))
			}
		}
		slices.Sort(names)
		slices.Sort(want)
		if !slices.Equal(names, want) {
			return fmt.Errorf("etcd runs on %v, want %v", names, want)
		}
		return nil
	})
	for _, t := range s.w.units {
		if t.VduID != "MasterVDU" {
			continue
		}
		out, err := s.host(t).Run(s.Context(), nil, "kubectl", "--kubeconfig", defaultConf, "-n", "kube-system", "exec",
			"etcd-"+strings.Replace(workerName(t), "worker", "master", 1), "--", "etcdctl", "--endpoints", "https://127.0.0.1:2379",
			"--cacert", "/etc/kubernetes/pki/etcd/ca.crt", "--cert", "/etc/kubernetes/pki/etcd/server.crt", "--key", "/etc/kubernetes/pki/etcd/server.key", "member", "list")
		if err != nil {
			s.Fatal(err)
		}
		var names []string
		for line := range strings.Lines(out) {
			if f := strings.Split(strings.TrimSpace(line), ", "); len(f) == 6 && f[1] == "started" && f[5] == "false" {
				names = append(names, f[2])
			}
		}
		slices.Sort(names)
		if !slices.Equal(names, want) {
			s.Errorf("the members of etcd are %s, want %v", out, want)
		}
		return
	}
}

const defaultConf = "/etc/kubernetes/admin.conf"

// asked asks for a URL until it is stopped, each time by a new connection. A client that tries
// once more, as those of Kubernetes do, must be answered.
func (s *site) asked(url string) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	var all sync.WaitGroup
	asked, again := 0, 0
	all.Go(func() {
		failed := 0
		for ; ctx.Err() == nil; kit.Pause(ctx, 100*time.Millisecond) {
			asked++
			err := func() error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
				if err != nil {
					return err
				}
				resp, err := client.Do(req)
				if err != nil {
					return err
				}
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != http.StatusOK {
					return fmt.Errorf("%s: %s", resp.Status, text)
				}
				return nil
			}()
			if err == nil || ctx.Err() != nil {
				failed = 0
				continue
			}
			again++
			s.Logf("%s is asked once more: %v", url, err)
			if failed++; failed == 4 {
				s.Errorf("four requests in a row had no answer: %v", err)
			}
		}
	})
	return func() {
		s.Helper()
		cancel()
		all.Wait()
		s.Logf("%s was asked %d times, %d of them once more", url, asked, again)
		if asked < 50 {
			s.Errorf("it was asked %d times: too few to prove anything", asked)
		}
	}
}
