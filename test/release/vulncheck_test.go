package release

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/test/process"
)

// vulnerability is an entry of a database as https://go.dev/security/vuln/database describes it: of a function of
// bbolt, in every version but those to come.
type vulnerability struct{ id, symbol string }

// database serves these entries, as vuln.go.dev does.
func database(t *testing.T, entries ...vulnerability) string {
	t.Helper()
	const module, at = "go.etcd.io/bbolt", "2026-01-02T03:04:05Z"
	type object = map[string]any
	files, listed := map[string]any{"/index/db.json": object{"modified": at}}, []object{}
	for _, v := range entries {
		listed = append(listed, object{"id": v.id, "modified": at, "fixed": "99.0.0"})
		files["/ID/"+v.id+".json"] = object{
			"schema_version": "1.3.1", "id": v.id, "modified": at, "published": at, "summary": "For this test",
			"database_specific": object{"url": "https://pkg.go.dev/vuln/" + v.id, "review_status": "REVIEWED"},
			"affected": []object{{
				"package": object{"name": module, "ecosystem": "Go"},
				"ranges":  []object{{"type": "SEMVER", "events": []object{{"introduced": "0"}, {"fixed": "99.0.0"}}}},
				"ecosystem_specific": object{"imports": []object{{
					"path": module, "symbols": []string{v.symbol},
				}}},
			}},
		}
	}
	files["/index/modules.json"] = []object{{"path": module, "vulns": listed}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, packed := strings.CutSuffix(r.URL.Path, ".gz")
		file, ok := files[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		text, err := json.Marshal(file)
		if err != nil {
			t.Error(err)
		}
		if packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(text) // to memory
			_ = z.Close()
			text = b.Bytes()
		}
		_, _ = w.Write(text) // who asks sees that it isn't whole
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// vulncheck runs packaging/vulncheck with a database, and returns what it says. It looks at the store alone, in seconds:
// all of Jibe takes minutes.
func vulncheck(t *testing.T, db string, env ...string) (said string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(process.Root(), "packaging", "vulncheck"), "./store/bolt")
	cmd.Env = append(append(os.Environ(), "GOVULNDB="+db, "VULNCHECK_REQUIRE="), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// The store calls bbolt's Open, and not its Batch.
func TestVulncheckFailsOnWhatJibeCallsAlone(t *testing.T) {
	need(t)
	called, uncalled := vulnerability{"GO-2026-90001", "Open"}, vulnerability{"GO-2026-90002", "DB.Batch"}
	said, ok := vulncheck(t, database(t, called, uncalled))
	if ok || !strings.Contains(said, called.id) || !strings.Contains(said, "vulncheck: Jibe calls code that is known to be vulnerable") || !strings.Contains(said, "99.0.0") {
		t.Errorf("what is called: it succeeds: %v\n%s", ok, said)
	}
	if strings.Contains(said, uncalled.id) {
		t.Errorf("what isn't called is a finding, too:\n%s", said)
	}
	if said, ok := vulncheck(t, database(t, uncalled)); !ok {
		t.Errorf("what isn't called: it fails:\n%s", said)
	}
}

func TestVulncheckSaysThatItHasNotCheckedWhereTheDatabaseIsAway(t *testing.T) {
	need(t)
	away := httptest.NewServer(http.NotFoundHandler())
	away.Close()
	if said, ok := vulncheck(t, away.URL); !ok || !strings.Contains(said, "vulncheck: NOT CHECKED") {
		t.Errorf("it succeeds: %v\n%s", ok, said)
	}
	if said, ok := vulncheck(t, away.URL, "VULNCHECK_REQUIRE=1"); ok || strings.Contains(said, "NOT CHECKED") {
		t.Errorf("where it is required it succeeds: %v\n%s", ok, said)
	}
}
