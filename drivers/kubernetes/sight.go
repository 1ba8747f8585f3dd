package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	authorization "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/raw"
	"github.com/jibe-vnfm/jibe/drivers/kubernetes/watched"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

// Look connects to the cluster, and asks for the rights that the driver needs for the kinds that
// packages are usually made of: to read them in all namespaces, and to write them in all or, where
// the credentials may write workloads in some alone, in those; where the VIM names namespaces, in these alone. It lists
// the other kinds that instances have. It changes nothing. The error says why the
// cluster can't be reached or doesn't take the credentials.
func Look(ctx context.Context, vim drivers.VIM, o Options) (drivers.Sight, error) {
	config, err := restConfig(vim, o.KubeconfigExec)
	if err != nil {
		return drivers.Sight{}, err
	}
	config.UserAgent, config.WarningHandler, config.QPS = "jibe", rest.NoWarnings{}, -1
	guard(config, o.Egress)
	through, err := rest.TransportFor(config)
	if err != nil {
		return drivers.Sight{}, err
	}
	client := &http.Client{Transport: watched.AnswerOnce(bound().Bound(through)), CheckRedirect: egress.SameServer}
	defer client.CloseIdleConnections()
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return drivers.Sight{}, err
	}
	s, err := lookAtVersion(ctx, client, strings.TrimRight(base.String(), "/")+"/version")
	if err != nil {
		return s, err
	}
	reviews, err := authorization.NewForConfigAndClient(config, client)
	if err != nil {
		return s, err
	}
	objects, err := dynamic.NewForConfigAndClient(config, client)
	if err != nil {
		return s, err
	}
	rights := sightOfRights{reviews.SelfSubjectAccessReviews(), objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})}
	look := rights.look
	if len(vim.Namespaces) > 0 {
		look = func(ctx context.Context, s *drivers.Sight) error { return rights.lookIn(ctx, s, vim.Namespaces) }
	}
	if err := look(ctx, &s); err != nil {
		return s, err
	}
	s.Account = ownAccount(ctx, objects)
	kinds, err := newSightOfKinds(config, client, vim.Namespaces)
	if err != nil {
		return s, err
	}
	return s, kinds.look(ctx, &s)
}

// ownAccount returns the service account, "namespace/name", for which the API server takes the
// credentials; "" where they are no account's, or it doesn't tell (before Kubernetes 1.28).
func ownAccount(ctx context.Context, client dynamic.Interface) string {
	reviews := client.Resource(schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"})
	answer, err := reviews.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview",
	}}, metav1.CreateOptions{})
	if err != nil {
		return ""
	}

	account, is := strings.CutPrefix(raw.String(answer.Object, "status", "userInfo", "username"), "system:serviceaccount:")
	if !is {
		return ""
	}
	return strings.Replace(account, ":", "/", 1)
}

func lookAtVersion(ctx context.Context, client *http.Client, url string) (s drivers.Sight, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return s, err
	}
	asked := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.Timed, s.Skew = true, at.Sub(asked.Add(time.Since(asked)/2).Truncate(time.Second))
	}
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		s.Expires = resp.TLS.PeerCertificates[0].NotAfter
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return s, err
	}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("the API server answers %s: do the credentials hold?", resp.Status)
	}
	var v struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(text, &v); err != nil || v.GitVersion == "" {
		return s, fmt.Errorf("what answers at the endpoint is no Kubernetes API server")
	}
	s.Version = "Kubernetes " + v.GitVersion
	return s, nil
}
