package reconciler

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestAProjectThatClaimsNoNamespaceHasNone(t *testing.T) {
	t.Parallel()

	for name, may := range map[string]bool{"core": false, desired.DefaultProject: true} {
		p, err := desired.ParseProject("projects/"+name+".yaml", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := boundsOf(p, "jibe").MayUseNamespace("amf"); got != may {
			t.Errorf("project %s may use a namespace: %v, want %v", name, got, may)
		}
		if boundsOf(p, "jibe").MayUseNamespace("jibe") {
			t.Errorf("project %s may use Jibe's own namespace", name)
		}
	}
}
