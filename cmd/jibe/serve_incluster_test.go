package main

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
)

func TestNamespacesOfThePodsAccountAreChecked(t *testing.T) {
	t.Parallel()
	r := secret.Reach{Namespaces: []string{"vnfs", "edge"}}
	if err := checkInCluster(true, &r); err != nil || strings.Join(r.Namespaces, " ") != "edge vnfs" {
		t.Errorf("%v, %v", r.Namespaces, err)
	}
	for want, c := range map[string]struct {
		inCluster bool
		names     []string
	}{
		"give --in-cluster, too":          {false, []string{"vnfs"}},
		"is named twice":                  {true, []string{"vnfs", "vnfs"}},
		"is not the name of a namespace":  {true, []string{"*"}},
		"in which Kubernetes itself runs": {true, []string{"kube-system"}},
	} {
		if err := checkInCluster(c.inCluster, &secret.Reach{Namespaces: c.names}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c.names, err, want)
		}
	}
}
