package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	authv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/kubeenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// account makes a service account and returns its token. role is a cluster role that
// it has, "" for none.
func (b *bench) account(name, role string) string {
	b.Helper()
	accounts := b.api.CoreV1().ServiceAccounts(b.namespace)
	if _, err := accounts.Create(b.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	if role != "" {
		b.grant(name, role)
	}
	token, err := accounts.CreateToken(b.Context(), name, &authv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	own := rest.AnonymousClientConfig(b.config)
	own.BearerToken = token.Status.Token
	client, err := kubernetes.NewForConfig(own)
	if err != nil {
		b.Fatal(err)
	}
	kit.Eventually(b, func() error { // the API server learns of the account and of its role by and by
		asked := &authzv1.SelfSubjectAccessReview{Spec: authzv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authzv1.ResourceAttributes{Namespace: b.namespace, Verb: "create", Group: "apps", Resource: "deployments"}}}
		may, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(b.Context(), asked, metav1.CreateOptions{})
		if err == nil && may.Status.Allowed != (role != "") {
			err = fmt.Errorf("%s with the role %q may: %t", name, role, may.Status.Allowed)
		}
		return err
	})
	return token.Status.Token
}

// grant gives a service account a cluster role until the test ends.
func (b *bench) grant(account, role string) {
	b.Helper()
	bindings := b.api.RbacV1().ClusterRoleBindings()
	name := b.namespace + "-" + account
	_, err := bindings.Create(b.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: b.namespace}},
	}, metav1.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	// It stays for the server's watches, until the whole run is over.
	afterwards(func() error { return bindings.Delete(b.background(), name, metav1.DeleteOptions{}) })
}

// connection is an inline VimConnectionInfo for the cluster.
func (b *bench) connection(token string) object {
	b.Helper()
	config := kubeenv.RestConfig(b.T)
	ca := config.CAData
	if len(ca) == 0 {
		var err error
		if ca, err = os.ReadFile(config.CAFile); err != nil {
			b.Fatal(err)
		}
	}
	return object{"vimId": "inline-" + b.namespace, "vimType": "ETSINFV.KUBERNETES.V_1",
		"interfaceInfo": object{"endpoint": config.Host, "ssl_ca_cert": string(ca)},
		"accessInfo":    object{"bearer_token": token}}
}

// TestRESTBringsAVNFThroughItsLife also looks for the credentials of the request
// wherever something is kept or shown.
func TestRESTBringsAVNFThroughItsLifeAndHidesItsSecrets(t *testing.T) {
	b := newBench(t, usual)
	token := b.account("jibe", "cluster-admin")
	made := b.must(t, 201, "POST", instances, object{"vnfdId": webapp, "vnfInstanceName": "rest", "vnfInstanceDescription": "d", "metadata": object{"k": "v"}})
	instance := made.object(t)
	id := instance.text("id")
	if got, want := made.Header.Get("Location"), b.url+instances+"/"+id; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	for path, want := range map[string]string{
		"vnfInstanceName": "rest", "vnfInstanceDescription": "d", "vnfdId": webapp, "vnfProvider": "Jibe Examples", "vnfProductName": "webapp",
		"vnfSoftwareVersion": "1.0", "vnfdVersion": "1.0", "instantiationState": "NOT_INSTANTIATED",
	} {
		if instance.text(path) != want {
			t.Errorf("%s is %v, want %q", path, instance[path], want)
		}
	}
	if _, ok := instance["vnfConfigurableProperties"].(map[string]any); !ok {
		t.Errorf("vnfConfigurableProperties is %v", instance["vnfConfigurableProperties"])
	}
	if got := linksOf(instance); !slices.Equal(got, []string{"instantiate", "self"}) {
		t.Errorf("_links of a new instance: %v", got)
	}

	// PATCH, with the ETag of another state and of this one.
	path := instances + "/" + id
	etag := b.must(t, 200, "GET", path, nil).Header.Get("ETag")
	b.must(t, 412, "PATCH", path, object{"vnfInstanceName": "x"}, "If-Match", `"other"`, "Content-Type", "application/merge-patch+json")
	patched := b.must(t, 202, "PATCH", path, object{"vnfInstanceName": "renamed"}, "If-Match", etag, "Content-Type", "application/merge-patch+json")
	b.await(t, patched.Header.Get("Location"), "COMPLETED")
	b.must(t, 412, "DELETE", path, nil, "If-Match", etag)

	body := b.request()
	body["instantiationLevelId"] = "instantiation_level_1"
	body["vimConnectionInfo"] = object{"vim1": b.connection(token)}
	body["additionalParams"].(object)["lcm-kubernetes-def-files"] = []string{"Files/kubernetes/configmap.yaml", "Files/kubernetes/service.yaml", "Files/kubernetes/deployment.yaml", "Files/kubernetes/statefulset.yaml"}
	body["additionalParams"].(object)["db_password"] = "hunter2-in-clear"
	op := b.server.run(t, id, "instantiate", body)
	b.awaitPods(2)
	b.affected(op, "ADDED", "VDU1", "VDU2")
	shown := b.show(t, id)
	for _, attr := range []string{"flavourId", "vnfState", "scaleStatus", "maxScaleLevels", "vnfcResourceInfo", "vnfcInfo", "metadata"} {
		if shown.get("instantiatedVnfInfo", attr) == nil {
			t.Errorf("instantiatedVnfInfo has no %s", attr)
		}
	}
	if got := linksOf(shown); !slices.Equal(got, []string{"changeCurrentVnfPkg", "changeExtConn", "heal", "operate", "scale", "scaleToLevel", "self", "terminate"}) {
		t.Errorf("_links of a running instance: %v", got)
	}
	if shown.text("vnfInstanceName") != "renamed" || shown.text("instantiationState") != "INSTANTIATED" {
		t.Errorf("%v", shown)
	}
	b.sameVNFCs(id)

	before := b.pods()
	op = b.server.run(t, id, "scale", scale("SCALE_OUT", "both", 2))
	b.awaitPods(6)
	b.affected(op, "ADDED", "VDU1", "VDU1", "VDU2", "VDU2")
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		name := v.text("computeResource", "resourceId")
		if _, old := before[name]; old || b.pods()[name].Name == "" {
			t.Errorf("%s is said to have been added", name)
		}
	}
	if n := b.level(id, "both"); n != 2 {
		t.Errorf("scale level %d, want 2", n)
	}
	b.sameVNFCs(id)

	before = b.pods()
	op = b.server.run(t, id, "scale", object{"type": "SCALE_IN", "aspectId": "both"}) // one step is the default
	b.awaitPods(4)
	b.affected(op, "REMOVED", "VDU1", "VDU2")
	after := b.pods()
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		name := v.text("computeResource", "resourceId")
		if _, still := after[name]; still || string(before[name].UID) != v.text("id") {
			t.Errorf("%s (%s) is said to have been removed", name, v.text("id"))
		}
	}
	b.must(t, 409, "DELETE", path, nil)

	op = b.server.run(t, id, "terminate", object{"terminationType": "GRACEFUL", "gracefulTerminationTimeout": 1})
	b.awaitPods(0)
	b.affected(op, "REMOVED", "VDU1", "VDU1", "VDU2", "VDU2")
	b.withoutSecrets(id, token, "hunter2-in-clear")
	b.must(t, 204, "DELETE", path, nil)
	b.must(t, 404, "GET", path, nil)

	d := b.clone(t, "desired.git")
	log := d.Git("log", "--format=%(trailers:key=Operation,valueonly,separator=%x2C)", "--", desired.APIDir(id))
	for _, want := range []string{"INSTANTIATE", "SCALE", "TERMINATE", "MODIFY_INFO"} {
		if !strings.Contains(log, want) {
			t.Errorf("git log has no commit of %s:\n%s", want, log)
		}
	}
}

func linksOf(o object) []string {
	links, _ := o["_links"].(map[string]any)
	var names []string
	for name := range links {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// affected compares the operation's affected VNFCs.
func (b *bench) affected(op object, change string, vdus ...string) {
	b.Helper()
	var got []string
	for _, v := range op.list("resourceChanges", "affectedVnfcs") {
		if v.text("changeType") != change {
			b.Errorf("%s of %s: %v", op.text("operation"), change, v)
		}
		got = append(got, v.text("vduId"))
	}
	slices.Sort(got)
	if !slices.Equal(got, vdus) {
		b.Errorf("%s %s: %v, want %v", op.text("operation"), change, got, vdus)
	}
}

// sameVNFCs compares what the API shows with the pods that there are.
func (b *bench) sameVNFCs(id string) {
	b.Helper()
	pods := b.pods()
	shown := b.show(b.T, id)
	list := shown.list("instantiatedVnfInfo", "vnfcResourceInfo")
	if len(list) != len(pods) {
		b.Errorf("%d vnfcResourceInfo, %d pods", len(list), len(pods))
	}
	infos := map[string]object{}
	for _, v := range shown.list("instantiatedVnfInfo", "vnfcInfo") {
		infos[v.text("vnfcResourceInfoId")] = v
	}
	for _, v := range list {
		name := v.text("computeResource", "resourceId")
		p, ok := pods[name]
		if !ok || string(p.UID) != v.text("id") || v.text("computeResource", "vimLevelResourceType") == "" || v["metadata"] == nil {
			b.Errorf("vnfcResourceInfo %v; the pod is %s", v, p.UID)
		}
		if got, want := infos[v.text("id")].text("id"), v.text("vduId")+"-"+name; got != want {
			b.Errorf("vnfcInfo.id %q, want %q", got, want)
		}
	}
}

// withoutSecrets looks for secrets wherever something is kept or shown.
func (b *bench) withoutSecrets(id string, secrets ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "git", "-C", filepath.Join(b.data, "desired.git"), "cat-file", "--batch", "--batch-all-objects")
	cmd.Env = process.Environment()
	history, err := cmd.Output()
	if err != nil {
		b.Fatal(err)
	}
	store, err := os.ReadFile(filepath.Join(b.data, "store.db"))
	if err != nil {
		b.Fatal(err)
	}
	places := map[string][]byte{"git": history, "store.db": store, "log": []byte(b.process.Log())}
	for _, path := range []string{instances + "/" + id, instances + "?all_fields", operations + "?all_fields&filter=(eq,vnfInstanceId," + id + ")"} {
		places["GET "+path] = b.must(b, 200, "GET", path, nil).Body
	}
	for where, text := range places {
		if len(text) == 0 {
			b.Errorf("%s is empty", where)
		}
		for _, s := range secrets {
			if bytes.Contains(text, []byte(s)) {
				b.Errorf("%s has a secret in clear", where)
			}
		}
	}
	if !bytes.Contains(history, []byte("age:")) {
		b.Error("git has no encrypted secret either")
	}
}

func TestBodiesAreValidated(t *testing.T) {
	b := newBench(t, usual)
	id := b.runs(plain)
	idle := b.create(plain)
	for _, tt := range []struct {
		status       int
		method, path string
		body         object
		says         string
	}{
		{400, "POST", instances, object{"vnfInstanceName": "no vnfdId"}, "vnfdId"},
		{400, "POST", instances, object{"vnfdId": plain, "surplus": 1}, "surplus"},
		{400, "POST", instances, object{"vnfdId": 7}, "vnfdId"},
		{422, "POST", instances, object{"vnfdId": "00000000-0000-4000-8000-000000000000"}, "00000000-0000-4000-8000-000000000000"},
		{404, "GET", instances + "/nobody", nil, "nobody"},
		{405, "PUT", instances + "/" + id, object{}, "GET"},
		{400, "POST", instances + "/" + idle + "/instantiate", object{}, "flavourId"},
		{400, "POST", instances + "/" + idle + "/instantiate", object{"flavourId": "grand"}, "simple"},
		{400, "POST", instances + "/" + idle + "/instantiate", object{"flavourId": "simple"}, "lcm-kubernetes-def-files"},
		{400, "POST", instances + "/" + idle + "/instantiate", object{"flavourId": "simple", "instantiationLevelId": "huge"}, "huge"},
		{400, "POST", instances + "/" + idle + "/instantiate", object{"flavourId": "simple", "additionalParams": object{"lcm-kubernetes-def-files": []string{"Files/none"}}}, "Files/none"},
		{404, "POST", instances + "/" + idle + "/instantiate", object{"flavourId": "simple", "vimConnectionInfo": object{"vim1": object{"vimId": "elsewhere", "vimType": "ETSINFV.KUBERNETES.V_1"}},
			"additionalParams": object{"lcm-kubernetes-def-files": []string{"Files/kubernetes/all.yaml"}}}, "elsewhere"},
		{409, "POST", instances + "/" + idle + "/scale", scale("SCALE_OUT", "web_aspect", 1), "NOT_INSTANTIATED"},
		{409, "POST", instances + "/" + idle + "/terminate", object{"terminationType": "FORCEFUL"}, "NOT_INSTANTIATED"},
		{409, "POST", instances + "/" + id + "/instantiate", object{"flavourId": "simple"}, "INSTANTIATED already"},
		{400, "POST", instances + "/" + id + "/scale", scale("SCALE_UP", "web_aspect", 1), "SCALE_UP"},
		{400, "POST", instances + "/" + id + "/scale", scale("SCALE_OUT", "db_aspect", 1), "db_aspect"},
		{400, "POST", instances + "/" + id + "/scale", scale("SCALE_OUT", "web_aspect", 6), "outside 0..5"},
		{400, "POST", instances + "/" + id + "/scale", scale("SCALE_IN", "web_aspect", 1), "outside 0..5"},
		{400, "POST", instances + "/" + id + "/scale", scale("SCALE_OUT", "web_aspect", 0), "numberOfSteps"},
		{400, "POST", instances + "/" + id + "/terminate", object{"terminationType": "SOON"}, "SOON"},
		{400, "POST", instances + "/" + id + "/operate", object{}, "changeStateTo"},
		{404, "POST", instances + "/" + id + "/change_flavour", object{"newFlavourId": "large"}, "no other flavour"},
		{404, "POST", instances + "/" + id + "/create_snapshot", object{}, "not supported"},
		{404, "GET", operations + "/nothing", nil, "nothing"},
	} {
		var body any
		if tt.body != nil {
			body = tt.body
		}
		a := b.rest(t, tt.method, tt.path, body)
		problem := a.object(t)
		if a.Status != tt.status || !strings.Contains(problem.text("detail"), tt.says) && !strings.Contains(a.Header.Get("Allow"), tt.says) || a.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s %v: %d %s, want %d and %q", tt.method, tt.path, tt.body, a.Status, a.Body, tt.status, tt.says)
		}
	}
	for header, status := range map[[2]string]int{
		{"Authorization", "Bearer wrong-token-0000"}: 401, {"Version", "9.0.0"}: 406, {"Version", "two"}: 400,
		{"Accept", "text/html"}: 406, {"Content-Type", "application/xml"}: 415,
	} {
		if a := b.rest(t, "POST", instances, object{"vnfdId": plain}, header[0], header[1]); a.Status != status {
			t.Errorf("%s: %s is answered with %d: %s", header[0], header[1], a.Status, a.Body)
		}
	}
	b.must(t, 413, "POST", instances, object{"vnfdId": plain, "vnfInstanceDescription": strings.Repeat("x", 2<<20)})
	if n := len(b.history(t, id)); n != 1 {
		t.Errorf("refused requests left %d operations", n-1)
	}
	if n := len(b.history(t, idle)); n != 0 {
		t.Errorf("refused requests left %d operations", n)
	}
}

func TestVIMsThatRefuseSayHow(t *testing.T) {
	for name, tt := range map[string]struct {
		repair bool
		atOnce bool // and not when the time is up
		says   []string
		token  func(b *bench) (string, func(object))
	}{
		"wrong credentials": {says: []string{"Unauthorized"}, token: func(*bench) (string, func(object)) { return "not-a-token", nil }},
		"no rights":         {says: []string{"forbidden", "system:serviceaccount:"}, repair: true, token: func(b *bench) (string, func(object)) { return b.account("powerless", ""), nil }},
		"unreachable": {says: []string{"connection refused", "127.0.0.1:1"}, token: func(*bench) (string, func(object)) {
			return "t", func(c object) { c["interfaceInfo"].(object)["endpoint"] = "https://127.0.0.1:1" }
		}},
		"without its CA": {says: []string{"isn't trusted", "interfaceInfo.ssl_ca_cert"}, atOnce: true, token: func(*bench) (string, func(object)) {
			return "t", func(c object) { delete(c["interfaceInfo"].(object), "ssl_ca_cert") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, impatient)
			id := b.create(plain)
			token, change := tt.token(b)
			c := b.connection(token)
			if change != nil {
				change(c)
			}
			body := b.request()
			body["vimConnectionInfo"] = object{"vim1": c}
			op := b.await(t, b.begin(t, id, "instantiate", body), "ROLLED_BACK")
			b.says(op, tt.says...)
			if tt.atOnce && strings.Contains(op.text("error", "detail"), "not done within") {
				t.Errorf("it was tried until the time was up: %s", op.text("error", "detail"))
			}
			if strings.Contains(fmt.Sprint(op), token) && len(token) > 1 {
				t.Error("the operation shows the token")
			}
			if tt.repair {
				b.grant("powerless", "cluster-admin")
			}
			// Another request may name another VIM, or find this one repaired.
			next := b.request()
			if tt.repair {
				next = body
			}
			kit.Eventually(t, func() error {
				a := b.rest(t, "POST", instances+"/"+id+"/instantiate", next)
				if a.Status != http.StatusAccepted {
					return fmt.Errorf("%d: %s", a.Status, a.Body)
				}
				// The right may reach the server's cache after the request: ask again then.
				if op := b.ended(t, a.Header.Get("Location")); op.text("operationState") != "COMPLETED" {
					return fmt.Errorf("%v: %v", op["operationState"], op["error"])
				}
				return nil
			})
			b.awaitPods(1)
		})
	}
}
