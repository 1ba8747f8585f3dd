package vnfpkgm_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/vnfd"
)

// SOL004 clause 4.1.3: a CSAR without TOSCA-Metadata has its main definition and its manifest,
// which have one name, at the root.
func TestUploadOfACSARWithoutMetadataIsOnboarded(t *testing.T) {
	t.Parallel()

	e := setup(t)
	files := sample(t, "amf-id")
	top := files["Definitions/top.yaml"]
	delete(files, vnfd.MetaFile)
	delete(files, "Definitions/top.yaml")
	files["amf.yaml"] = strings.NewReplacer("- types", "- Definitions/types", "- df", "- Definitions/df").Replace(top)
	files["amf.mf"] = "metadata:\n  vnf_product_name: amf\n\nSource: Files/kubernetes/web.yaml\n"

	path, shown := e.onboard(zipped(t, files))

	if shown.field("onboardingState") != "ONBOARDED" || shown.field("vnfdId") != "amf-id" {
		t.Fatalf("%s", shown.body)
	}
	if got := e.must(http.StatusOK, "GET", path+"/manifest", nil); !strings.Contains(string(got.body), "vnf_product_name: amf") {
		t.Errorf("manifest: %s", got.body)
	}
	e.must(http.StatusOK, "GET", path+"/vnfd", nil, "Accept", "application/zip")
	e.must(http.StatusOK, "GET", path+"/package_content", nil)
}

func TestUploadWithTwoMainDefinitionsIsRefusedNamingBoth(t *testing.T) {
	t.Parallel()

	e := setup(t)
	_, shown := e.onboard(zipped(t, map[string]string{"a.yaml": "{}", "a.mf": "", "b.yaml": "{}", "b.mf": ""}))

	if got := string(shown.body); !strings.Contains(got, "b.yaml: has a manifest of its name, as a.yaml has") {
		t.Error(got)
	}
}
