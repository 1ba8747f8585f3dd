package chart

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jibe-vnfm/jibe/test/testenv"
)

// forwarding is what kubectl port-forward says when it listens.
var forwarding = regexp.MustCompile(`^Forwarding from 127\.0\.0\.1:(\d+) `)

// notes does what the notes of helm install say: the server answers at a forwarded port, by the
// certificate that the chart made.
func (s *site) notes() {
	bin, err := testenv.ControlPlane(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), filepath.Join(bin, "kubectl"), "--namespace", namespace, "port-forward", "service/"+release, ":9890")
	cmd.Env = s.env
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}()
	defer time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }).Stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil {
			env := append(append([]string{}, s.jibe...), "JIBE_SERVER=https://localhost:"+m[1])
			if _, err := run(s.Context(), env, "", s.binary, "get", "instances"); err != nil {
				s.Error(err)
			}
			link, err := run(s.Context(), env, "", s.binary, "ui")
			if err != nil || !strings.HasPrefix(link, "https://localhost:"+m[1]+"/ui/login?code=") {
				s.Errorf("jibe ui says %q, %v", link, err)
			}
			return
		}
	}
	s.Fatalf("kubectl port-forward: %s", &said)
}

// rights asks the API server what the service account may do.
func (s *site) rights() {
	for _, may := range []struct {
		verb, group, resource, namespace string
		want                             bool
	}{
		{"create", "apps", "deployments", vnfs, true},
		{"patch", "", "secrets", vnfs, true},
		{"delete", "", "pods", vnfs, true},
		{"list", "", "secrets", vnfs, true},
		{"list", "", "pods", "", false},
		{"list", "", "secrets", "", false},
		{"get", "", "secrets", namespace, false},
		{"get", "", "namespaces", "", false},
		{"create", "apps", "deployments", "default", false},
		{"patch", "", "configmaps", namespace, false},
		{"delete", "", "pods", namespace, false},
		{"create", "rbac.authorization.k8s.io", "roles", vnfs, false},
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", false},
		{"create", "", "namespaces", "", false},
		{"impersonate", "", "serviceaccounts", vnfs, false},
		{"impersonate", "", "users", "", false},
		{"create", "", "pods/exec", vnfs, false},
		{"create", "", "serviceaccounts/token", vnfs, false},
		{"list", "", "nodes", "", false},
	} {
		resource, sub, _ := strings.Cut(may.resource, "/")
		review, err := s.Client.AuthorizationV1().SubjectAccessReviews().Create(s.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + namespace + ":" + release, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: may.verb, Group: may.group, Resource: resource, Subresource: sub, Namespace: may.namespace},
		}}, metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		if review.Status.Allowed != may.want {
			s.Errorf("may it %s %s in namespace %q? %v, want %v (%s)", may.verb, may.resource, may.namespace, review.Status.Allowed, may.want, review.Status.Reason)
		}
	}
}
