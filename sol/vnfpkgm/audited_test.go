package vnfpkgm_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/audit"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

func TestWhatComesOfAnArchiveIsOnRecordWithWhoSentIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	log := &audit.Memory{}
	e := setup(t, func(c *vnfpkgm.Config) { c.Audit = log })
	good, _ := e.onboard(zipped(t, sample(t, "amf-id")))
	bad, _ := e.onboard(zipped(t, map[string]string{"README": "no package"}))
	got := log.Records()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []struct {
		path    string
		outcome audit.Outcome
	}{{good, audit.Done}, {bad, audit.Refused}} {
		if r := got[i]; r.Identity != "nfvo" || r.Issuer == "" || r.Action != "onboard" || r.Outcome != want.outcome || (r.Reason != "") != (want.outcome == audit.Refused) ||
			!strings.HasSuffix(want.path, filepath.Base(r.Object)) {
			t.Errorf("%s: %+v", want.path, r)
		}
	}
}

func TestWhoHasMuchWaitingOnTheDiskWaitsAndOthersDoNot(t *testing.T) {
	t.Parallel()

	e := setup(t, func(c *vnfpkgm.Config) { c.Limits = csar.Limits{MaxTotal: 1 << 20} })
	e.stopped() // else what waits would be carried out
	if err := os.MkdirAll(filepath.Join(e.dir, "uploads"), 0o700); err != nil {
		t.Fatal(err)
	}
	waits := func(id, by string) {
		t.Helper()
		for name, text := range map[string]string{id + ".request": `{"by": "` + by + `"}`, id + ".csar": strings.Repeat("x", 2<<20)} {
			if err := os.WriteFile(filepath.Join(e.dir, "uploads", name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	archive := zipped(t, sample(t, "amf-id"))
	waits("one", "otto <otto@jibe.invalid>")
	waits("two", "otto <otto@jibe.invalid>")
	waits("three", "nfvo <nfvo@jibe.invalid>")
	path := e.create()
	waits("four", "nfvo <nfvo@jibe.invalid>")
	if a := e.must(http.StatusServiceUnavailable, "PUT", path+"/package_content", archive, "Content-Type", "application/zip"); !strings.Contains(string(a.body), "wait already") {
		t.Errorf("%s", a.body)
	}
	if err := os.Remove(filepath.Join(e.dir, "uploads", "four.csar")); err != nil {
		t.Fatal(err)
	}
	e.must(http.StatusAccepted, "PUT", path+"/package_content", archive, "Content-Type", "application/zip")
}
