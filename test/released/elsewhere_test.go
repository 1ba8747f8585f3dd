package released_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// fetchedVnfd is that of the package which the process was fetching when it was killed.
const fetchedVnfd = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1bd5"

// elsewhere is what data name that are from elsewhere: a subscriber, and a source of a package.
type elsewhere struct {
	mu    sync.Mutex
	told  map[string][]string // the states of which the subscriber was told, by operation
	known map[string]bool     // the notifications that came, by id
	wrong []string            // requests without the credentials that the data hold
}

// listen answers at the address that the data name, until the test ends.
func listen(t *testing.T, address string) *elsewhere {
	t.Helper()
	e := &elsewhere{told: map[string][]string{}, known: map[string]bool{}}
	csar := filepath.Join(t.TempDir(), "fetched.csar")
	dir := process.NextVersion(t, process.SmallPackage(), "fetched", process.SmallVnfd, fetchedVnfd)
	if out, err := exec.CommandContext(t.Context(), process.Binary(t), "package", "build", dir, "-o", csar).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	archive, err := os.ReadFile(csar)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	knows := func(w http.ResponseWriter, r *http.Request, user, password string) bool {
		if u, p, _ := r.BasicAuth(); u == user && p == password {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wrong = append(e.wrong, fmt.Sprintf("%s %s with %v", r.Method, r.URL, r.Header))
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	mux.HandleFunc("GET /package", func(w http.ResponseWriter, r *http.Request) {
		if knows(w, r, "vendor", "pa55word-of-the-vendor") {
			_, _ = w.Write(archive) // a reader that goes is no concern of the test
		}
	})
	mux.HandleFunc("POST /callback", func(w http.ResponseWriter, r *http.Request) {
		var n struct {
			ID        string `json:"id"`
			Operation string `json:"vnfLcmOpOccId"`
			State     string `json:"operationState"`
		}
		if !knows(w, r, "nfvo", "pa55word-of-the-callback") {
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.known[n.ID] { // where the answer comes late, it is sent once more
			e.known[n.ID] = true
			e.told[n.Operation] = append(e.told[n.Operation], n.State)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("the data name this address: %v", err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	s.Start()
	t.Cleanup(s.Close)
	return e
}

// gets waits until the subscriber was told of every state, in its order: of those before the kill,
// which it hadn't taken, and of those after it.
func (e *elsewhere) gets(t *testing.T, m *made) {
	t.Helper()
	kit.Eventually(t, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.wrong) > 0 {
			return kit.Final(fmt.Errorf("the credentials aren't those that were kept: %q", e.wrong))
		}
		var missing []error
		for id, want := range map[string]string{
			m.Failed:      "STARTING PROCESSING FAILED_TEMP PROCESSING COMPLETED",
			m.RollingBack: "STARTING PROCESSING FAILED_TEMP ROLLING_BACK ROLLED_BACK",
			m.Processing:  "STARTING PROCESSING COMPLETED",
			m.Open:        "STARTING ROLLED_BACK",
		} {
			if got := strings.Join(e.told[id], " "); got != want {
				missing = append(missing, fmt.Errorf("of %s the subscriber was told %q, want %q", id, got, want))
			}
		}
		return errors.Join(missing...)
	})
}

// keeps fails unless the package that was being fetched is there, that which nobody has brought still
// has a place, and the credentials of a VIM can be read.
func (m *made) keeps(t *testing.T, s *process.Server) {
	t.Helper()
	type shown struct {
		VNFD  string `json:"vnfdId"`
		State string `json:"onboardingState"`
	}
	read := func(id string) (p shown, err error) {
		a, err := s.Do(t.Context(), http.MethodGet, "/vnfpkgm/v2/vnf_packages/"+id, nil, "Version", "2.1.0")
		if err == nil {
			err = json.Unmarshal(a.Body, &p)
		}
		return p, err
	}
	kit.Eventually(t, func() error {
		fetched, err := read(m.Packages.Fetched)
		if err == nil && (fetched.State != "ONBOARDED" || fetched.VNFD != fetchedVnfd) {
			err = fmt.Errorf("the package that was being fetched is %+v", fetched)
		}
		return err
	})
	if empty, err := read(m.Packages.Empty); err != nil || empty.State != "CREATED" {
		t.Errorf("the place for a package is %+v, %v", empty, err)
	}
	file, err := process.Git(t.Context(), s.Desired(), "show", "main:vims/keyed.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, ref, _ := strings.Cut(file, "password: ")
	keeper, err := secret.Open(s.Data, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := keeper.For(secret.ForVIMs()).Resolve(strings.TrimSpace(ref)); got != "pa55word-of-the-cloud" {
		t.Errorf("the credential in git is read as %q, %v", got, err)
	}
	for _, name := range []string{"store.db", "audit.jsonl"} { // what Jibe keeps has none in clear
		text, err := os.ReadFile(filepath.Join(s.Data, name))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("pa55word-of-the")) {
			t.Errorf("%s holds a password in clear", name)
		}
	}
}
