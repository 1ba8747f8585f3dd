package chart

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// account is the service account of a release whose rights alone were installed, with its token.
type account struct {
	*testing.T
	admin                        *kubernetes.Clientset
	own                          *rest.Config // by the account's token
	system, vnfs, other, tenants string       // namespaces: of Jibe, of VNFs, of others, of accounts of projects
	names                        []string     // namespaces.names, where VNFs are in these alone
}

// installRights installs what the chart renders of rights for the values, in which NAMES stand for the namespaces.
func installRights(t *testing.T, values string) account {
	t.Helper()
	kubeconfig := kubeenv.Kubeconfig(t)
	config := kubeenv.RestConfig(t)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	a := account{T: t, admin: admin}
	for _, ns := range []*string{&a.system, &a.vnfs, &a.other, &a.tenants} {
		*ns = kubeenv.Namespace(t, kubeconfig)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	text := strings.NewReplacer("VNFS", a.vnfs, "TENANTS", a.tenants).Replace(values)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var given struct{ Namespaces struct{ Names []string } }
	if err := yaml.Unmarshal([]byte(text), &given); err != nil {
		t.Fatal(err)
	}
	a.names = given.Namespaces.Names
	server := clientOf(t, kubeconfig)
	for _, obj := range render(t, a.system, file) {
		if obj.GetKind() != "ServiceAccount" && obj.GroupVersionKind().Group != rbacv1.GroupName || obj.GetAnnotations()["helm.sh/hook"] != "" {
			continue
		}
		if err := server.create(t, obj); err != nil {
			t.Fatalf("%s %s: %v", obj.GetKind(), obj.GetName(), err)
		}
	}
	a.own = rest.AnonymousClientConfig(config)
	a.own.QPS, a.own.BearerToken = -1, a.token(a.system, release)
	return a
}

// create makes the object, and takes it away at the end where no namespace does.
func (s *server) create(t *testing.T, obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	api := dynamic.ResourceInterface(s.client.Resource(mapping.Resource))
	if ns := obj.GetNamespace(); ns != "" {
		api = s.client.Resource(mapping.Resource).Namespace(ns)
	} else {
		t.Cleanup(func() {
			if err := api.Delete(context.WithoutCancel(t.Context()), obj.GetName(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("delete %s: %v", obj.GetName(), err)
			}
		})
	}
	_, err = api.Create(t.Context(), obj, metav1.CreateOptions{})
	return err
}

// token is one of a service account, as its pod has it.
func (a account) token(namespace, name string) string {
	a.Helper()
	request, err := a.admin.CoreV1().ServiceAccounts(namespace).CreateToken(a.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		a.Fatal(err)
	}
	return request.Status.Token
}

// refused says whether the API server refuses the account a request ("GET /api/v1/nodes") for want of a right. The
// body is no object, and what is deleted isn't there: what isn't refused changes nothing.
func (a account) refused(request, as string) bool {
	a.Helper()
	method, path, _ := strings.Cut(request, " ")
	path = strings.NewReplacer("SYSTEM", a.system, "VNFS", a.vnfs, "OTHER", a.other, "TENANTS", a.tenants).Replace(path)
	client, err := rest.HTTPClientFor(a.own)
	if err != nil {
		a.Fatal(err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(a.Context(), method, a.own.Host+path, strings.NewReader("{}"))
	if err != nil {
		a.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	if as != "" {
		req.Header.Set("Impersonate-User", "system:serviceaccount:"+a.tenants+":"+as)
	}
	resp, err := client.Do(req)
	if err != nil {
		a.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		a.Fatalf("%s: the API server doesn't know the account", request)
	}
	return resp.StatusCode == http.StatusForbidden
}

// serves starts Jibe with the cluster as its VIM, by the account's token alone, and with more files of the desired repository.
func (a account) serves(files map[string]string) *process.Server {
	a.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["own"] = &clientcmdapi.Cluster{Server: a.own.Host, CertificateAuthority: a.own.CAFile, CertificateAuthorityData: a.own.CAData}
	config.AuthInfos["own"] = &clientcmdapi.AuthInfo{Token: a.own.BearerToken}
	config.Contexts["own"] = &clientcmdapi.Context{Cluster: "own", AuthInfo: "own"}
	config.CurrentContext = "own"
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		a.Fatal(err)
	}
	kubeconfig := filepath.Join(a.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		a.Fatal(err)
	}
	s := process.Start(a, a.TempDir())
	all := map[string]string{"vims/own.yaml": s.Keep(a, vimFile(kubeconfig, a.names...))}
	maps.Copy(all, files)
	s.PushFiles(a, all)
	return s
}

// vimFile is the cluster of the kubeconfig as a VIM, in these namespaces alone where any are given, as
// --in-cluster-namespaces has it for the cluster of Jibe's own pod.
func vimFile(kubeconfig string, namespaces ...string) string {
	text := "type: kubernetes\ndefault: true\nkubeconfig: file:" + kubeconfig + "\n"
	if len(namespaces) > 0 {
		text += "namespaces: [" + strings.Join(namespaces, ", ") + "]\n"
	}
	return text
}

// examined is what jibe doctor says of the VIM.
func examined(t *testing.T, s *process.Server) (state, means string) {
	t.Helper()
	out, said, _ := s.CLI(t, "doctor", "-o", "json") // its exit status is about more than the VIM
	var checks []struct{ Name, State, Means string }
	if err := json.Unmarshal([]byte(out), &checks); err != nil {
		t.Fatalf("%v: %s%s", err, out, said)
	}
	for _, c := range checks {
		if c.Name == "VIM own" {
			return c.State, c.Means
		}
	}
	t.Fatalf("jibe doctor has no check of the VIM: %s", out)
	return "", ""
}

// ofNobody are requests that no values of the chart give a right to.
var ofNobody = []string{
	"GET /api/v1/nodes", "GET /apis/rbac.authorization.k8s.io/v1/clusterroles", "POST /apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions", "POST /apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
	"POST /api/v1/namespaces", "DELETE /api/v1/namespaces/VNFS", "POST /api/v1/persistentvolumes",
	"POST /apis/rbac.authorization.k8s.io/v1/namespaces/VNFS/rolebindings", "POST /api/v1/namespaces/VNFS/serviceaccounts/default/token",
	"POST /api/v1/namespaces/VNFS/pods/x/exec", "GET /api/v1/namespaces/VNFS/pods/x/log", "DELETE /api/v1/namespaces/VNFS/pods", "PUT /apis/apps/v1/namespaces/VNFS/deployments/x",
}

// noRoles is what jibe doctor says where rbac.roles is false.
const noRoles = "packages can't bring roles.rbac.authorization.k8s.io, rolebindings.rbac.authorization.k8s.io"

func TestTheRightsOfTheChartAreEnoughForJibeAndNoMore(t *testing.T) {
	for _, test := range []struct {
		name, values    string
		passed, refused []string
		doctor          []string // parts of what it says, which is no warning
		smoke           bool     // a VNF is taken through its life
	}{
		{
			name: "in namespaces", values: "namespaces: {names: [VNFS]}",
			passed: []string{
				"GET /api/v1/namespaces/VNFS/pods", "GET /apis/apps/v1/namespaces/VNFS/deployments?watch=1&timeoutSeconds=1", "GET /api/v1/namespaces/VNFS/secrets",
				"GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions", "GET /apis/storage.k8s.io/v1/storageclasses",
				"GET /api/v1/namespaces/kube-system", "GET /api/v1/namespaces?fieldSelector=metadata.name=VNFS",
				"POST /apis/apps/v1/namespaces/VNFS/deployments", "PATCH /api/v1/namespaces/VNFS/secrets/x", "DELETE /api/v1/namespaces/VNFS/pods/x",
			},
			refused: []string{
				"GET /api/v1/pods", "GET /apis/apps/v1/deployments?watch=1&timeoutSeconds=1", "GET /api/v1/events", "GET /api/v1/namespaces", "GET /api/v1/namespaces/OTHER",
				"GET /api/v1/secrets", "GET /api/v1/namespaces/OTHER/secrets", "GET /api/v1/namespaces/OTHER/secrets/x", "GET /api/v1/namespaces/SYSTEM/secrets", "GET /api/v1/namespaces/kube-system/secrets",
				"POST /apis/apps/v1/namespaces/OTHER/deployments", "PATCH /api/v1/namespaces/OTHER/secrets/x", "DELETE /api/v1/namespaces/OTHER/pods/x",
				"PATCH /api/v1/namespaces/SYSTEM/secrets/x", "DELETE /api/v1/namespaces/SYSTEM/pods/x", "DELETE /apis/apps/v1/namespaces/SYSTEM/statefulsets/x",
			},
			doctor: []string{"it is used in namespace VNFS alone", noRoles}, smoke: true,
		},
		{
			name: "in the whole cluster", values: "namespaces: {scope: cluster}",
			passed: []string{"POST /apis/apps/v1/namespaces/OTHER/deployments", "PATCH /api/v1/namespaces/OTHER/secrets/x", "GET /api/v1/secrets"},
			doctor: []string{noRoles}, smoke: true, // rbac.roles has to say so, also here
		},
		{
			name: "without secrets", values: "namespaces: {names: [VNFS]}\nrbac: {secrets: false}",
			refused: []string{"GET /api/v1/secrets", "GET /api/v1/namespaces/OTHER/secrets/x", "GET /api/v1/namespaces/VNFS/secrets", "PATCH /api/v1/namespaces/VNFS/secrets/x"},
			doctor:  []string{"it is used in namespace VNFS alone", "packages can't bring secrets, roles.rbac.authorization.k8s.io"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := installRights(t, test.values)
			for _, request := range test.passed {
				if a.refused(request, "") {
					t.Errorf("%s is refused", request)
				}
			}
			for _, request := range slices.Concat(test.refused, ofNobody) {
				if !a.refused(request, "") {
					t.Errorf("%s isn't refused", request)
				}
			}
			if !a.refused("GET /api/v1/namespaces/VNFS/pods", "core") {
				t.Error("it may act as another account")
			}
			s := a.serves(nil)
			state, means := examined(t, s)
			if state != "ok" || strings.Contains(means, "lacks") {
				t.Errorf("jibe doctor warns of what the chart means to be so: %s, %s", state, means)
			}
			for _, part := range test.doctor {
				if part = strings.ReplaceAll(part, "VNFS", a.vnfs); !strings.Contains(means, part) {
					t.Errorf("jibe doctor says %s; want %s", means, part)
				}
			}
			if !test.smoke {
				return
			}
			if out, said, code := s.CLI(t, "smoke-test", "--namespace", a.vnfs, "--image", "registry.k8s.io/pause:3.10"); code != 0 {
				t.Errorf("jibe smoke-test: %d: %s%s", code, out, said)
			}
		})
	}
}

func TestARightThatTheChartGivesAndSomebodyTookAwayIsAWarning(t *testing.T) {
	a := installRights(t, "namespaces: {names: [VNFS, TENANTS]}\nrbac: {roles: true}")
	s := a.serves(nil)
	if state, means := examined(t, s); state != "ok" || strings.Contains(means, "can't bring") {
		t.Errorf("before: %s, %s", state, means)
	}
	global := a.system + ":" + release
	for kind, alter := range map[string]func(*rbacv1.PolicyRule){
		"reads": func(r *rbacv1.PolicyRule) {
			r.Resources = slices.DeleteFunc(r.Resources, func(name string) bool { return name == "replicasets" || name == "endpointslices" || name == "events" })
		},
		"writes": func(r *rbacv1.PolicyRule) {
			r.Resources = slices.DeleteFunc(r.Resources, func(name string) bool { return name == "services" })
		},
	} {
		for _, namespace := range a.names {
			roles := a.admin.RbacV1().Roles(namespace)
			role, err := roles.Get(t.Context(), global+":"+kind, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range role.Rules {
				if alter(&role.Rules[i]); len(role.Rules[i].Resources) == 0 {
					role.Rules[i].Resources = []string{"nothing"}
				}
			}
			if _, err := roles.Update(t.Context(), role, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	says := func(want ...string) {
		t.Helper()
		kit.Eventually(t, func() error { // an API server learns of a role by its own watch
			state, means := examined(t, s)
			for _, part := range want {
				if state != "warning" || !strings.Contains(means, part) {
					return fmt.Errorf("jibe doctor: %s, %s; want a warning of %s", state, means, part)
				}
			}
			return nil
		})
	}
	says("endpointslices.discovery.k8s.io (get, list, watch)", "events (list, watch)", "replicasets.apps (get, list, watch)", "services (create, delete, patch)")
	// Another binding in one of both namespaces.
	if _, err := a.admin.RbacV1().RoleBindings(a.vnfs).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.system, Name: release}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	says("services in namespace " + a.tenants + " (create, delete, patch)")
	for _, binding := range [][2]string{{a.vnfs, "more"}, {a.vnfs, global + ":writes"}, {a.tenants, global + ":writes"}} {
		if err := a.admin.RbacV1().RoleBindings(binding[0]).Delete(t.Context(), binding[1], metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	says("deployments.apps (create, delete, patch)")
	// A VIM whose cluster doesn't say which one it is.
	if err := a.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), global+":read", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	says("which cluster answers can't be seen", "namespaces kube-system (get)", "storageclasses.storage.k8s.io (list, watch)")
}

func TestAProjectWritesAsTheAccountThatTheChartLetsJibeBe(t *testing.T) {
	a := installRights(t, "namespaces: {names: [VNFS]}\nrbac: {impersonate: [{namespace: TENANTS, name: core, hooks: true}, {namespace: TENANTS, name: edge}]}")
	// What the account itself may do is the administrator's to say.
	for _, name := range []string{"core", "edge", "third"} {
		if _, err := a.admin.CoreV1().ServiceAccounts(a.tenants).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.admin.RbacV1().RoleBindings(a.vnfs).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "core"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: a.tenants, Name: "core"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Eventually(t, func() error { // an API server learns of a binding by its own watch
		if a.refused("GET /api/v1/namespaces/VNFS/configmaps", "core") {
			return errors.New("it may not act as account core")
		}
		return nil
	})
	for _, may := range []struct {
		request, as string
		want        bool
	}{
		{"POST /api/v1/namespaces/VNFS/configmaps", "core", true},
		{"POST /api/v1/namespaces/OTHER/configmaps", "core", false}, // not a right of the account
		{"GET /api/v1/namespaces/VNFS/configmaps", "third", false},  // the chart was told nothing of it
		{"POST /api/v1/namespaces/TENANTS/serviceaccounts/core/token", "", true},
		{"POST /api/v1/namespaces/TENANTS/serviceaccounts/edge/token", "", false},
		{"PATCH /api/v1/namespaces/TENANTS/serviceaccounts/core", "", false},
	} {
		if a.refused(may.request, may.as) == may.want {
			t.Errorf("%s as %q: refused is %v", may.request, may.as, may.want)
		}
	}
	for _, request := range ofNobody {
		if !a.refused(request, "") {
			t.Errorf("%s isn't refused", request)
		}
	}
	s := a.serves(map[string]string{"projects/core.yaml": "instances: [core]\nvims: [own]\nrepositories: [packages]\nnamespaces: [" + a.vnfs + "]\nimpersonate: {serviceAccount: " + a.tenants + "/core}\n"})
	// Where all that writes is accounts of projects, Jibe's own needs no right to.
	if err := a.admin.RbacV1().RoleBindings(a.vnfs).Delete(t.Context(), a.system+":"+release+":writes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kit.Until(t, "it may write nothing by itself", func() bool { return a.refused("POST /api/v1/namespaces/VNFS/configmaps", "") })
	if state, means := examined(t, s); state != "ok" || !strings.Contains(means, "projects write as accounts of their own ("+a.tenants+"/core …)") {
		t.Errorf("jibe doctor, of rights that nobody needs: %s, %s", state, means)
	}
	s.PushPackages(t, []string{process.SmallVnfd}, process.SmallPackage())
	s.PushFiles(t, map[string]string{"instances/core/web/vnf.yaml": "name: web\nvnfdId: " + process.SmallVnfd + "\nflavour: simple\nparams: {namespace: " + a.vnfs + "}\n"})
	kit.Eventually(t, func() error {
		ops, err := process.All[process.Operation](t.Context(), s, process.Operations)
		switch {
		case err != nil:
			return err
		case len(ops) == 1 && ops[0].State == "COMPLETED":
			return nil
		case len(ops) == 1 && ops[0].State == "FAILED_TEMP":
			return kit.Final(fmt.Errorf("%s: %s", ops[0].Type, ops[0].Error.Detail))
		}
		return fmt.Errorf("the operations are %+v", ops)
	})
}
