package app_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/app"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

const packageList = "/vnfpkgm/v2/vnf_packages"

// onboarding gives replicas a package repository on a git server that they may write to, and returns
// where it is. It is empty.
func (r *together) onboarding(s []*process.Server) (bare string) {
	r.Helper()
	bare = filepath.Join(r.TempDir(), "uploads.git")
	process.InitBare(r, bare)
	r.work.WriteFiles(map[string]string{"repositories.yaml": r.work.Read("repositories.yaml") + "- {name: uploads, url: " + bare + ", branch: main, onboarding: true}\n"})
	r.work.Push("Take uploads")
	r.poke(s[0])
	for _, one := range s {
		// Each has to have read the settings, too.
		kit.Eventually(r, func() error {
			a, err := one.Do(r.Context(), http.MethodPost, packageList, map[string]any{}, "Version", "2.1.0")
			if err != nil || a.Status != http.StatusCreated {
				return fmt.Errorf("%+v, %w", a, err)
			}
			one.Want(r, http.StatusNoContent, http.MethodDelete, packageList+"/"+a.ID(), nil, nil, "Version", "2.1.0")
			return nil
		})
	}
	return bare
}

// place makes a place for a package at a replica, and returns its path.
func place(t *testing.T, s *process.Server) string {
	t.Helper()
	a := s.Want(t, http.StatusCreated, http.MethodPost, packageList, map[string]any{}, nil, "Version", "2.1.0")
	return packageList + "/" + a.ID()
}

// shownPackage is a package as a replica shows it.
type shownPackage struct {
	VnfdID           string `json:"vnfdId"`
	State            string `json:"onboardingState"`
	OperationalState string `json:"operationalState"`
	Failure          struct {
		Status int    `json:"status"`
		Detail string `json:"detail"`
	} `json:"onboardingFailureDetails"`
}

// is returns an error unless a replica shows the package in the onboarding and operational state.
func is(t *testing.T, s *process.Server, one, state, operational string) error {
	a, err := s.Do(t.Context(), http.MethodGet, one, nil, "Version", "2.1.0")
	if err != nil {
		return err
	}
	var p shownPackage
	if a.Status != http.StatusOK {
		return fmt.Errorf("%d %s", a.Status, a.Body)
	}
	if err := json.Unmarshal(a.Body, &p); err != nil {
		return err
	}
	if p.State != state || p.OperationalState != operational {
		return fmt.Errorf("%s is %s and %s (%s), want %s and %s", one, p.State, p.OperationalState, p.Failure.Detail, state, operational)
	}
	return nil
}

func example(name string) string { return filepath.Join(process.Root(), "examples", "packages", name) }

// packageEvents subscribes at a replica, and returns what has been told so far.
func packageEvents(t *testing.T, s *process.Server) (told func() []string) {
	t.Helper()
	var mu sync.Mutex
	var all []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && r.Method == http.MethodPost {
			var n struct{ NotificationType, VnfdID, ChangeType, OperationalState string }
			if err := json.Unmarshal(body, &n); err != nil {
				t.Error(err)
			}
			mu.Lock()
			all = append(all, strings.TrimSpace(n.NotificationType+" "+n.VnfdID+" "+n.ChangeType+" "+n.OperationalState))
			mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	s.Want(t, http.StatusCreated, http.MethodPost, "/vnfpkgm/v2/subscriptions", map[string]any{"callbackUri": server.URL,
		"filter": map[string]any{"vnfProductsFromProviders": []any{map[string]any{"vnfProvider": "Jibe Examples"}}}}, nil, "Version", "2.1.0")
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}
}

func TestAPackageIsUploadedToAnyReplicaAndIsThereAtEachAtOnce(t *testing.T) {
	r, s := newReplicas(t, 3)
	bare := r.onboarding(s)
	told := packageEvents(t, s[1])
	const vnfdID = "3a5c1f0e-6d0b-4f7e-9c55-0f6f2a9e1ba0"
	one := place(t, s[0])
	for _, other := range s[1:] {
		atOnce(t, func() error { return is(t, other, one, "CREATED", "DISABLED") })
	}
	if status, said := sendArchive(t, s[1], one, archive(t, example("cnf-sample-1.0"))); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, said)
	}
	kit.Eventually(t, func() error { return is(t, s[2], one, "ONBOARDED", "ENABLED") })
	for _, other := range s {
		atOnce(t, func() error { return is(t, other, one, "ONBOARDED", "ENABLED") })
	}
	create := func(s *process.Server, status int) error {
		a, err := s.Do(t.Context(), http.MethodPost, process.Instances, map[string]any{"vnfdId": vnfdID})
		if err == nil && a.Status != status {
			err = fmt.Errorf("create: %d %s, want %d", a.Status, a.Body, status)
		}
		if err == nil && status == http.StatusCreated {
			s.Want(t, http.StatusNoContent, http.MethodDelete, process.Instances+"/"+a.ID(), nil, nil)
		}
		return err
	}
	if err := create(s[0], http.StatusCreated); err != nil {
		t.Error(err)
	}
	change := func(what string) string { return "VnfPackageChangeNotification " + vnfdID + " " + what }
	want := []string{"VnfPackageOnboardingNotification " + vnfdID}
	tells := func(next ...string) { // what follows too fast is told of as one change
		t.Helper()
		want = append(want, next...)
		kit.Eventually(t, func() error {
			if got := told(); len(got) < len(want) {
				return fmt.Errorf("told: %q, want %q", got, want)
			}
			return nil
		})
	}
	tells()
	for n, state := range []string{"DISABLED", "ENABLED", "DISABLED"} {
		s[n].Want(t, http.StatusOK, http.MethodPatch, one, map[string]any{"operationalState": state}, nil, "Version", "2.1.0")
		status := map[string]int{"DISABLED": http.StatusUnprocessableEntity, "ENABLED": http.StatusCreated}[state]
		for _, other := range s {
			atOnce(t, func() error { return is(t, other, one, "ONBOARDED", state) })
			atOnce(t, func() error { return create(other, status) })
		}
		tells(change("OP_STATE_CHANGE " + state))
	}
	s[1].Want(t, http.StatusNoContent, http.MethodDelete, one, nil, nil, "Version", "2.1.0")
	for _, other := range s {
		atOnce(t, func() error {
			a, err := other.Do(t.Context(), http.MethodGet, one, nil, "Version", "2.1.0")
			if err == nil && a.Status != http.StatusNotFound {
				err = fmt.Errorf("a package that was deleted: %d %s", a.Status, a.Body)
			}
			return err
		})
	}
	tells(change("PKG_DELETE"))
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("told: %q, want %q", got, want)
	}
	// Each deed is one commit, by who asked.
	log := r.git(bare, "log", "--reverse", "--format=%an: %s", "main")
	lines := strings.Split(log, "\n")
	if len(lines) != 2*len(s)+6 || !strings.Contains(lines[2*len(s)+1], ": Onboard "+vnfdID) {
		t.Errorf("the history of the package repository is\n%s", log)
	}
}

// git runs git in a folder.
func (r *together) git(dir string, args ...string) string {
	r.Helper()
	out, err := process.Git(r.Context(), dir, args...)
	if err != nil {
		r.Fatal(err)
	}
	return out
}

// settled waits until a replica shows what became of an upload.
func settled(t *testing.T, s *process.Server, one string) (p shownPackage) {
	t.Helper()
	kit.Eventually(t, func() error {
		p = shownPackage{}
		s.Want(t, http.StatusOK, http.MethodGet, one, nil, &p, "Version", "2.1.0")
		if p.State != "ONBOARDED" && p.State != "ERROR" {
			return fmt.Errorf("%s is %s", one, p.State)
		}
		return nil
	})
	return p
}

func TestOfUploadsAtOnceOnSeveralReplicasNoneIsLostAndEachConflictIsTold(t *testing.T) {
	r, s := newReplicas(t, 3)
	bare := r.onboarding(s)
	first, second := archive(t, example("cnf-sample-1.0")), archive(t, example("cnf-sample-1.1"))
	// Of one vnfdId, and other content.
	other := archive(t, process.NextVersion(t, example("cnf-sample-1.1"), "other", "Jibe Examples", "Somebody"))
	together := func(at [2]*process.Server, places [2]string, archives [2][]byte) (statuses []int, said string) {
		t.Helper()
		var all sync.WaitGroup
		answers := make([]int, 2)
		texts := make([]string, 2)
		for n := range 2 {
			all.Go(func() { answers[n], texts[n] = sendArchive(t, at[n], places[n], archives[n]) })
		}
		all.Wait()
		slices.Sort(answers)
		return answers, strings.Join(texts, "\n")
	}
	// Two packages: both land.
	a, b := place(t, s[0]), place(t, s[1])
	if got, said := together([2]*process.Server{s[1], s[2]}, [2]string{a, b}, [2][]byte{first, second}); !slices.Equal(got, []int{202, 202}) {
		t.Fatalf("two packages: %v %s", got, said)
	}
	for _, one := range []string{a, b} {
		if p := settled(t, s[0], one); p.State != "ONBOARDED" {
			t.Errorf("%+v", p)
		}
	}
	// One place: one gets it, and the other is told.
	c := place(t, s[2])
	webapp := archive(t, example("webapp"))
	if got, said := together([2]*process.Server{s[0], s[1]}, [2]string{c, c}, [2][]byte{webapp, first}); !slices.Equal(got, []int{202, 409}) || !strings.Contains(said, "VNF package") {
		t.Errorf("one place: %v %s", got, said)
	}
	if p := settled(t, s[2], c); p.State != "ONBOARDED" {
		t.Errorf("%+v", p)
	}
	// One vnfdId: one is the package, and the other says why it isn't.
	s[0].Want(t, http.StatusOK, http.MethodPatch, b, map[string]any{"operationalState": "DISABLED"}, nil, "Version", "2.1.0")
	s[0].Want(t, http.StatusNoContent, http.MethodDelete, b, nil, nil, "Version", "2.1.0")
	d, e := place(t, s[0]), place(t, s[1])
	if got, said := together([2]*process.Server{s[0], s[1]}, [2]string{d, e}, [2][]byte{second, other}); !slices.Equal(got, []int{202, 202}) {
		t.Fatalf("one vnfdId: %v %s", got, said)
	}
	states := []shownPackage{settled(t, s[2], d), settled(t, s[2], e)}
	slices.SortFunc(states, func(a, b shownPackage) int { return strings.Compare(b.State, a.State) })
	if states[0].State != "ONBOARDED" || states[1].Failure.Status != http.StatusConflict || !strings.Contains(states[1].Failure.Detail, states[0].VnfdID) {
		t.Errorf("one vnfdId: %+v", states)
	}
	// A bad one is refused whole: what is left is why.
	f := place(t, s[0])
	before := r.git(bare, "ls-tree", "-d", "--name-only", "main")
	if status, said := sendArchive(t, s[1], f, []byte("no archive")); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, said)
	}
	if p := settled(t, s[2], f); p.State != "ERROR" || p.Failure.Status != http.StatusUnprocessableEntity {
		t.Errorf("no archive: %+v", p)
	}
	if after := r.git(bare, "ls-tree", "-d", "--name-only", "main"); after != before {
		t.Errorf("the folders were\n%sand are\n%s", before, after)
	}
}

func TestWhileTheGitServerOfPackagesIsAwayUploadsWaitAndOtherChangesAreRefused(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 2)
	bare := r.onboarding(s)
	one := place(t, s[0])
	atOnce(t, func() error { return is(t, s[1], one, "CREATED", "DISABLED") })
	away := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	away(bare, bare+".away")
	a, err := s[0].Do(t.Context(), http.MethodPost, packageList, map[string]any{}, "Version", "2.1.0")
	if err != nil || a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Body), "nothing was changed") {
		t.Errorf("create: %+v, %v", a, err)
	}
	if status, said := sendArchive(t, s[1], one, archive(t, example("cnf-sample-1.0"))); status != http.StatusAccepted {
		t.Fatalf("%d %s", status, said)
	}
	// The other one shows that it is worked on, and takes no other content meanwhile.
	kit.Eventually(t, func() error { return is(t, s[0], one, "PROCESSING", "DISABLED") })
	if status, said := sendArchive(t, s[0], one, archive(t, example("webapp"))); status != http.StatusConflict || !strings.Contains(said, "PROCESSING") {
		t.Errorf("%d %s", status, said)
	}
	away(bare+".away", bare)
	if p := settled(t, s[0], one); p.State != "ONBOARDED" {
		t.Errorf("%+v", p)
	}
}

func TestAReplicaWithALocalPackageRepositoryIsRefusedByName(t *testing.T) {
	t.Parallel()

	r, s := newReplicas(t, 1)
	r.work.WriteFiles(map[string]string{"repositories.yaml": "- {name: mine, url: mine.git, branch: main}\n"})
	r.work.Push("Name a folder")
	r.poke(s[0])
	err := app.Run(t.Context(), r.options())
	for _, w := range []string{"package repository mine (mine.git)", "put it on a git server", "repositories.yaml", "branch main of " + r.remote} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the start ends with %v, want %q", err, w)
		}
	}
}
