package chart

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// instanceIn is a VNF in the namespace.
func instanceIn(name, namespace string) map[string]string {
	return map[string]string{"instances/" + name + "/vnf.yaml": "name: " + name + "\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: " + namespace + "}\n"}
}

// By the Roles of two namespaces, which are all that the chart gives, VNFs of both go through their lives, and no Secret of
// a third one can be read.
func TestVNFsLiveByTheRolesOfTheirNamespaces(t *testing.T) {
	a := installRights(t, "namespaces: {names: [VNFS, TENANTS]}")
	if _, err := a.admin.CoreV1().Secrets(a.other).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "the API server knows the Roles", func() bool {
		return !a.refused("GET /api/v1/namespaces/VNFS/secrets", "") && !a.refused("PATCH /api/v1/namespaces/TENANTS/secrets/x", "")
	})
	s := a.serves(nil)

	for _, namespace := range a.names { // instantiate, scale, heal, change_vnfpkg, scale, terminate
		if out, said, code := s.CLI(t, "smoke-test", "--namespace", namespace, "--image", "registry.k8s.io/pause:3.10"); code != 0 {
			t.Errorf("jibe smoke-test in %s: %d: %s%s", namespace, code, out, said)
		}
	}

	for _, request := range []string{"GET /api/v1/namespaces/OTHER/secrets/theirs", "GET /api/v1/namespaces/OTHER/secrets", "GET /api/v1/secrets"} {
		if !a.refused(request, "") {
			t.Errorf("%s isn't refused", request)
		}
	}
	if state, means := examined(t, s); state != "ok" || strings.Contains(means, "isn't needed") {
		t.Errorf("jibe doctor: %s, %s", state, means)
	}
}

// A namespace that the VIM's file no longer names isn't seen any more: what is there is neither taken for gone nor
// made again, until the file names it again.
func TestANamespaceThatIsNamedNoMoreKeepsItsVNFs(t *testing.T) {
	a := installRights(t, "namespaces: {names: [VNFS, TENANTS]}")
	s := a.serves(nil)
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, instanceIn("web", a.vnfs))
	settled(t, s, 1)

	d := process.NewWorkTree(t, s.Desired())
	for path, text := range instanceIn("astray", a.other) {
		d.Write(path, text)
	}
	d.Commit("Run it elsewhere")
	if out, err := d.TryPush(); err == nil || !strings.Contains(out, "is in namespace "+a.other+", and VIM own is used in namespaces") || !strings.Contains(out, "instances/astray/vnf.yaml") {
		t.Errorf("the push of a VNF in a namespace that isn't named: %v\n%s", err, out)
	}

	clone := process.NewClone(t, s.Desired())
	names := regexp.MustCompile(`(?m)^namespaces: .*$`)
	named := func(list string) {
		s.PushChange(t, clone, func(c *process.Clone) (map[string]string, error) {
			text, err := c.Read("vims/own.yaml")
			return map[string]string{"vims/own.yaml": names.ReplaceAllString(text, "namespaces: "+list)}, err
		})
	}
	note := func() string {
		out, said, code := s.CLI(t, "get", "problems")
		if code != 0 {
			t.Fatalf("jibe get problems: %d: %s%s", code, out, said)
		}
		return strings.Join(strings.Fields(out), " ")
	}
	deployments := func() string {
		list, err := a.admin.AppsV1().Deployments(a.vnfs).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		uids := ""
		for _, x := range list.Items {
			uids += string(x.UID) + " "
		}
		return uids
	}
	was := deployments()

	named("[" + a.tenants + "]")
	kit.Eventually(t, func() error {
		if said := note(); !strings.Contains(said, "namespace "+a.vnfs+" isn't watched") {
			return fmt.Errorf("the problems are %q", said)
		}
		return nil
	})
	named("[" + a.tenants + ", " + a.vnfs + "]")
	kit.Eventually(t, func() error {
		if said := note(); strings.Contains(said, "namespace "+a.vnfs+" isn't watched") {
			return fmt.Errorf("the problem is still there: %q", said)
		}
		return nil
	})

	if is := deployments(); was == "" || is != was {
		t.Errorf("its Deployments were %s, and are %s", was, is)
	}
	s.PushChange(t, clone, func(c *process.Clone) (map[string]string, error) {
		text, err := c.Read("instances/web/vnf.yaml")
		return map[string]string{"instances/web/vnf.yaml": text + "levels: {front: 1}\n"}, err
	})
	settled(t, s, 2)
}

// settled waits until so many operations have been completed.
func settled(t *testing.T, s *process.Server, count int) {
	t.Helper()
	kit.Eventually(t, func() error {
		ops, err := process.All[process.Operation](t.Context(), s, process.Operations)
		if err != nil {
			return err
		}
		done := 0
		for _, op := range ops {
			switch op.State {
			case "COMPLETED":
				done++
			case "FAILED_TEMP", "ROLLED_BACK":
				return kit.Final(fmt.Errorf("%s: %s", op.Type, op.Error.Detail))
			}
		}
		if done != count {
			return fmt.Errorf("the operations are %+v", ops)
		}
		return nil
	})
}
