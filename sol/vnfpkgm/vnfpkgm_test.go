package vnfpkgm_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/packages"
	"github.com/jibe-vnfm/jibe/sol/vnfpkgm"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/published"
)

func TestAPackageLivesFromCreationToDeletion(t *testing.T) {
	t.Parallel()

	published.Held(t)
	e := setup(t)
	a := e.must(http.StatusCreated, "POST", "/vnf_packages", map[string]any{"userDefinedData": map[string]any{"site": "west", "floor": 3}})
	path := "/vnf_packages/" + a.field("id")
	if a.Header.Get("Location") != base+"/vnfpkgm/v2"+path || a.field("onboardingState") != "CREATED" || a.field("operationalState") != "DISABLED" {
		t.Errorf("created: %s %s", a.Header.Get("Location"), a.body)
	}
	e.must(http.StatusConflict, "GET", path+"/vnfd", nil)
	e.must(http.StatusConflict, "PATCH", path, map[string]any{"operationalState": "ENABLED"})
	files := sample(t, "amf-id")
	var noise strings.Builder
	for i := 0; noise.Len() < 6_000_000; i++ {
		fmt.Fprintf(&noise, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	files["Files/large"] = noise.String()[:5_999_990] + "0123456789"
	e.must(http.StatusAccepted, "PUT", path+"/package_content", zipped(t, files))
	a = e.settled(path)
	for attr, want := range map[string]string{"onboardingState": "ONBOARDED", "operationalState": "ENABLED", "usageState": "NOT_IN_USE",
		"vnfdId": "amf-id", "vnfdVersion": "1.0", "userDefinedData": "map[floor:3 site:west]"} {
		if a.field(attr) != want {
			t.Errorf("%s is %q, not %q: %s", attr, a.field(attr), want, a.body)
		}
	}
	if left := e.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	e.must(http.StatusConflict, "PUT", path+"/package_content", zipped(t, files))

	// What is downloaded is what was uploaded, and has the checksum that is shown.
	whole := e.must(http.StatusOK, "GET", path+"/package_content", nil).body
	sum := sha256.Sum256(whole)
	if !strings.Contains(string(a.body), hex.EncodeToString(sum[:])) {
		t.Errorf("the checksum is %s, not %x", a.field("checksum"), sum)
	}
	z, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil || len(z.File) != len(files) {
		t.Errorf("the archive has %d files, not %d (%v)", len(z.File), len(files), err)
	}
	for _, r := range []struct{ ask, want string }{{"bytes=100-199", "100-199"}, {"bytes=-50", ""}, {"bytes=6000000-", ""}} {
		part := e.must(http.StatusPartialContent, "GET", path+"/package_content", nil, "Range", r.ask)
		if r.want != "" && !bytes.Equal(part.body, whole[100:200]) || !bytes.Contains(whole, part.body) {
			t.Errorf("%s: %d bytes", r.ask, len(part.body))
		}
	}
	e.must(http.StatusRequestedRangeNotSatisfiable, "GET", path+"/package_content", nil, "Range", "bytes=99999999-")
	if got := e.must(http.StatusPartialContent, "GET", path+"/artifacts/Files/large", nil, "Range", "bytes=5999990-").body; string(got) != "0123456789" {
		t.Errorf("the end of an artifact is %q", got)
	}
	// The VNFD has several files, which aren't one text. Only the text of the standard has 406.
	e.must(http.StatusNotAcceptable, "GET", "/vnfpkgm/v1"+path+"/vnfd", nil, "Accept", "text/plain", "Version", "1.1.0")
	if a := e.must(http.StatusOK, "GET", "/onboarded_vnf_packages/amf-id/vnfd", nil, "Accept", "application/zip"); a.Header.Get("Content-Type") != "application/zip" {
		t.Errorf("vnfd: %v", a.Header)
	}
	if z, err := zip.NewReader(bytes.NewReader(e.must(http.StatusOK, "GET", path+"/artifacts", nil).body), 0); err == nil && len(z.File) == 0 {
		t.Error("no artifacts")
	}
	e.must(http.StatusNotFound, "GET", path+"/manifest", nil)

	e.used["amf-id"] = true
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("usageState") != "IN_USE" {
		t.Errorf("usageState: %s", a.body)
	}
	e.must(http.StatusConflict, "DELETE", path, nil)
	delete(e.used, "amf-id")
	e.must(http.StatusConflict, "DELETE", path, nil) // it is enabled
	before := e.git(e.packages(), "rev-parse", "main")
	e.must(http.StatusOK, "PATCH", path, map[string]any{"operationalState": "ENABLED"})
	if e.git(e.packages(), "rev-parse", "main") != before {
		t.Error("what changes nothing made a commit")
	}
	e.must(http.StatusOK, "PATCH", path, map[string]any{"operationalState": "DISABLED", "userDefinedData": map[string]any{"floor": nil, "x": "y"}})
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("operationalState") != "DISABLED" || a.field("userDefinedData") != "map[site:west x:y]" {
		t.Errorf("after the change: %s", a.body)
	}
	e.must(http.StatusNoContent, "DELETE", path, nil)
	e.must(http.StatusNotFound, "GET", path, nil)
	e.must(http.StatusNotFound, "DELETE", path, nil)
	if tree := e.git(e.packages(), "ls-tree", "-r", "--name-only", "main"); tree != "README.md" {
		t.Errorf("left in git: %s", tree)
	}
}

func TestListsAreFilteredAndSelected(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	published.Held(t)
	e := setup(t)
	e.onboard(zipped(t, sample(t, "amf-id")))
	e.onboard(zipped(t, sample(t, "smf-id")))
	e.create()
	count := func(path string) int {
		t.Helper()
		var list []map[string]any
		if err := json.Unmarshal(e.must(http.StatusOK, "GET", path, nil).body, &list); err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	for path, want := range map[string]int{
		"/vnf_packages":                                                   3,
		"/onboarded_vnf_packages":                                         2,
		"/vnf_packages?filter=(eq,vnfdId,smf-id)":                         1,
		"/vnf_packages?filter=(eq,onboardingState,CREATED)":               1,
		"/vnf_packages?filter=(eq,additionalArtifacts/isEncrypted,false)": 2,
		"/vnf_packages?all_fields":                                        3,
		"/vnf_packages?fields=vnfdId":                                     3,
	} {
		if got := count(path); got != want {
			t.Errorf("%s: %d, not %d", path, got, want)
		}
	}
	if a := e.must(http.StatusOK, "GET", "/vnf_packages?exclude_default", nil); strings.Contains(string(a.body), "additionalArtifacts") {
		t.Errorf("%s", a.body)
	}
	e.must(http.StatusBadRequest, "GET", "/vnf_packages?filter=(eq", nil)
	e.must(http.StatusBadRequest, "GET", "/vnf_packages?color=red", nil)
	e.must(http.StatusBadRequest, "GET", "/vnf_packages?filter=(eq,vnfdID,x)", nil)
	e.must(http.StatusBadRequest, "GET", "/vnf_packages?fields=colour", nil)
}

func TestAFormIsAnUploadToo(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	e := setup(t)
	path := e.create()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "amf.csar")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := part.Write(zipped(t, sample(t, "amf-id"))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	e.must(http.StatusBadRequest, "PUT", path+"/package_content", b.Bytes()[:b.Len()/2], "Content-Type", w.FormDataContentType())
	e.must(http.StatusAccepted, "PUT", path+"/package_content", b.Bytes(), "Content-Type", w.FormDataContentType())
	if a := e.settled(path); a.field("onboardingState") != "ONBOARDED" {
		t.Errorf("%s", a.body)
	}
}

func TestWhatCanNotBeUsedIsRefusedWholeAndLeavesNothing(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	published.Held(t)
	e := setup(t, func(c *vnfpkgm.Config) { c.Limits.MaxTotal = 8 << 20 })
	with := func(change map[string]string) map[string]string {
		files := sample(t, "amf-id")
		maps.Copy(files, change)
		return files
	}
	raw := func(entries ...*zip.FileHeader) []byte {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, h := range entries {
			w, err := z.CreateHeader(h)
			if err == nil {
				_, err = w.Write([]byte("x"))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	link := &zip.FileHeader{Name: "link"}
	link.SetMode(0o777 | 1<<27)
	aliases := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		aliases += fmt.Sprintf("%c: &%c [%s*%c]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 8), c-1)
	}
	meta := sample(t, "amf-id")["TOSCA-Metadata/TOSCA.meta"]
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"no archive":       {[]byte("hello"), "is no VNF package"},
		"empty":            {raw(), "TOSCA.meta"},
		"a checksum":       {zipped(t, with(map[string]string{"TOSCA-Metadata/TOSCA.meta": meta + "\nName: Files/kubernetes/web.yaml\nAlgorithm: SHA-256\nHash: 00\n"})), "was changed"},
		"no definitions":   {zipped(t, with(map[string]string{"TOSCA-Metadata/TOSCA.meta": "Entry-Definitions: Definitions/none.yaml\n"})), "Definitions/none.yaml"},
		"a path outside":   {raw(&zip.FileHeader{Name: "../../etc/passwd"}), "leaves the package"},
		"an absolute path": {raw(&zip.FileHeader{Name: "/etc/passwd"}), "absolute"},
		"a symbolic link":  {raw(link), "symbolic link"},
		"a name twice":     {raw(&zip.FileHeader{Name: "a"}, &zip.FileHeader{Name: "a"}), "twice"},
		"a bomb":           {zipped(t, with(map[string]string{"bomb": strings.Repeat("\x00", 4<<20)})), "is it a bomb?"},
		"aliases":          {zipped(t, with(map[string]string{"Files/kubernetes/web.yaml": aliases})), "alias"},
		"a git directory":  {zipped(t, with(map[string]string{"x/.git/config": "[core]"})), "not allowed"},
		"two archives":     {raw(&zip.FileHeader{Name: "a.csar"}, &zip.FileHeader{Name: "b.csar"}), "several archives"},
	} {
		path, a := e.onboard(c.data)
		var info struct {
			State   string `json:"onboardingState"`
			VnfdID  string `json:"vnfdId"`
			Failure struct {
				Status int    `json:"status"`
				Detail string `json:"detail"`
			} `json:"onboardingFailureDetails"`
		}
		if err := json.Unmarshal(a.body, &info); err != nil {
			t.Fatal(err)
		}
		if info.State != "ERROR" || !strings.Contains(info.Failure.Detail, c.want) || info.Failure.Status >= 500 || strings.Contains(info.Failure.Detail, e.dir) {
			t.Errorf("%s: %s", name, a.body)
		}
		e.must(http.StatusNoContent, "DELETE", path, nil)
	}
	path := e.create()
	e.must(http.StatusRequestEntityTooLarge, "PUT", path+"/package_content", bytes.Repeat([]byte("x"), 10<<20))
	e.must(http.StatusUnsupportedMediaType, "PUT", path+"/package_content", []byte("x"), "Content-Type", "text/html")
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("onboardingState") != "CREATED" {
		t.Errorf("after a refusal: %s", a.body)
	}
	e.must(http.StatusNoContent, "DELETE", path, nil)
	if left := e.left(); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if tree := e.git(e.packages(), "ls-tree", "-r", "--name-only", "main"); tree != "README.md" {
		t.Errorf("left in git: %s", tree)
	}
	if packs, err := filepath.Glob(filepath.Join(e.packages(), "objects", "pack", "*")); err != nil || len(packs) > 3*40 {
		t.Errorf("%d files of packs, %v", len(packs), err)
	}
}

func TestAVnfdIDIsOnePackage(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	e := setup(t)
	first, _ := e.onboard(zipped(t, sample(t, "amf-id")))
	other := sample(t, "amf-id")
	other["README"] = "changed"
	path, a := e.onboard(zipped(t, other))
	if a.field("onboardingState") != "ERROR" || !strings.Contains(a.field("onboardingFailureDetails"), "status:409") {
		t.Errorf("other content: %s", a.body)
	}
	// The same place takes better content.
	e.must(http.StatusAccepted, "PUT", path+"/package_content", zipped(t, sample(t, "amf-id")))
	if a := e.settled(path); a.field("onboardingState") != "ONBOARDED" {
		t.Errorf("the same content: %s", a.body)
	}
	// Both are one package: a state of one is that of the other, and the content goes with the last.
	e.must(http.StatusOK, "PATCH", path, map[string]any{"operationalState": "DISABLED"})
	if a := e.must(http.StatusOK, "GET", first, nil); a.field("operationalState") != "DISABLED" {
		t.Errorf("%s", a.body)
	}
	e.must(http.StatusNoContent, "DELETE", first, nil)
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("onboardingState") != "ONBOARDED" {
		t.Errorf("after the first was deleted: %s", a.body)
	}
	e.must(http.StatusNoContent, "DELETE", path, nil)
	if _, err := e.c.Find("amf-id"); err == nil {
		t.Error("the content is still there")
	}
}

func TestManyUploadsAtOnceAreAllOnboarded(t *testing.T) {
	t.Parallel()

	e := setup(t)
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if _, a := e.onboard(zipped(t, sample(t, fmt.Sprintf("id-%d", i)))); a.field("onboardingState") != "ONBOARDED" {
				t.Errorf("%s", a.body)
			}
		})
	}
	// Two of one vnfdId: one is onboarded, and never a mixture.
	states := make([]string, 2)
	for i := range states {
		files := sample(t, "same")
		files["README"] = fmt.Sprint(i)
		all.Go(func() {
			_, a := e.onboard(zipped(t, files))
			states[i] = a.field("onboardingState")
		})
	}
	all.Wait()
	if states[0]+states[1] != "ONBOARDEDERROR" && states[0]+states[1] != "ERRORONBOARDED" {
		t.Errorf("two of one vnfdId are %v", states)
	}
	if got := len(e.c.List()); got != 6 {
		t.Errorf("%d packages", got)
	}
}

func TestWhatIsPushedIsShownAndWhatIsShownCanBePulled(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	published.Held(t)
	e := setup(t)
	for name, content := range sample(t, "amf-id") {
		e.write("amf/"+name, content)
	}
	e.push()
	e.sync()
	path := "/vnf_packages/" + packages.DerivedID("amf-id")
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("onboardingState") != "ONBOARDED" || a.field("operationalState") != "ENABLED" {
		t.Errorf("%s", a.body)
	}
	// The same content by the API is the same package, and the id that it had stays.
	again, a := e.onboard(zipped(t, sample(t, "amf-id")))
	if a.field("onboardingState") != "ONBOARDED" {
		t.Errorf("%s", a.body)
	}
	e.must(http.StatusOK, "GET", path, nil)
	e.must(http.StatusOK, "PATCH", again, map[string]any{"operationalState": "DISABLED"})
	work := filepath.Join(e.dir, "work")
	e.git(work, "pull", "-q", "origin", "main")
	if records := e.git(work, "ls-files", ".jibe"); strings.Count(records, "\n") != 1 {
		t.Errorf("records: %s", records)
	}
	// A person takes the content away: what is left says so.
	e.git(work, "rm", "-q", "-r", "amf")
	e.push()
	e.sync()
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("onboardingState") != "ERROR" || !strings.Contains(a.field("onboardingFailureDetails"), "has left") {
		t.Errorf("%s", a.body)
	}
	// A record that is no record is a problem, and nothing else.
	e.write(".jibe/packages/x.yaml", "disabled: [")
	e.push()
	e.sync()
	if p := e.c.Problems(); len(p) != 1 {
		t.Errorf("problems: %v", p)
	}
}

func TestAPackageOfAnotherRepositoryIsDisabledAndNotDeleted(t *testing.T) {
	t.Parallel()

	e := setup(t)
	other := filepath.Join(e.dir, "other")
	e.git(e.dir, "init", "-q", "-b", "main", other)
	for name, content := range sample(t, "smf-id") {
		e.write("../other/"+name, content)
	}
	e.git(other, "add", "-A")
	e.git(other, "commit", "-q", "-m", "A package")
	remote := desired.Repository{Name: "vendor", URL: "file://" + other, Branch: "main"}
	e.sync(remote)
	path := "/vnf_packages/" + packages.DerivedID("smf-id")
	e.must(http.StatusOK, "PATCH", path, map[string]any{"operationalState": "DISABLED"})
	if a := e.must(http.StatusOK, "GET", path, nil); a.field("operationalState") != "DISABLED" {
		t.Errorf("%s", a.body)
	}
	if a := e.must(http.StatusConflict, "DELETE", path, nil); !strings.Contains(a.field("detail"), "vendor") {
		t.Errorf("%s", a.body)
	}
	if _, err := e.c.Find("smf-id"); err == nil {
		t.Error("it is enabled")
	}
}

func TestNobodyLearnsOrChangesWhatIsNotTheirs(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	e := setup(t)
	path, _ := e.onboard(zipped(t, sample(t, "amf-id")))
	for _, p := range []string{"/vnf_packages", path, "/vnf_packages/none", path + "/package_content", "/onboarded_vnf_packages/none/vnfd"} {
		e.must(http.StatusUnauthorized, "GET", p, nil, "Authorization", "")
		if a := e.do("GET", p, nil, "Authorization", "Bearer "+readToken); a.StatusCode != http.StatusOK && a.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", p, a.StatusCode)
		}
	}
	e.must(http.StatusForbidden, "POST", "/vnf_packages", map[string]any{}, "Authorization", "Bearer "+readToken)
	e.must(http.StatusForbidden, "DELETE", path, nil, "Authorization", "Bearer "+readToken)
	for _, p := range []string{"/../../x", "/%2e%2e/%2e%2e/x", "/..%2f..%2fx", "//etc/passwd", "/.", "/Files", "/Files/", "/a%00b", "/TOSCA-Metadata%5CTOSCA.meta"} {
		if a := e.do("GET", path+"/artifacts"+p, nil); a.StatusCode != http.StatusNotFound && a.StatusCode != http.StatusMovedPermanently && a.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: %d %s", p, a.StatusCode, a.body)
		}
	}
	e.must(http.StatusMethodNotAllowed, "PUT", path, nil)
	e.must(http.StatusBadRequest, "GET", path, nil, "Version", "")
	e.must(http.StatusOK, "GET", "/vnfpkgm/v1"+path, nil, "Version", "")
	e.must(http.StatusOK, "GET", "/vnfpkgm/api_versions", nil, "Version", "", "Authorization", "")
}
