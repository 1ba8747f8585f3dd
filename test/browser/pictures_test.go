package browser_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
	"github.com/jibe-vnfm/jibe/test/process"
)

// picturesOf is the variable that names the folder which pictures for the guides are written to.
const picturesOf = "JIBE_PICTURES"

// largest bounds a picture, in bytes.
const largest = 150 << 10

// TestPicturesOfThePage writes the pictures of the page that the guides show: see the script
// pictures beside it.
func TestPicturesOfThePage(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(picturesOf)
	if dir == "" {
		t.Skipf("%s names no folder (test/browser/pictures does)", picturesOf)
	}
	b := browser.New(t)
	picture := func(tab *browser.Tab, name string) {
		t.Helper()
		if name != "page-proposal" { // what is asked for doesn't change while it is read
			tab.Eventually(`document.getElementById("live").dataset.state`, "live")
		}
		picture := tab.Screenshot(false)
		tab.Clean()
		if len(picture) > largest {
			t.Errorf("%s.png has %d bytes, and may have %d", name, len(picture), largest)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	picture(halfway(t, b), "page-rollout")
	s := browser.Sample(t)
	for name, v := range map[string]browser.View{
		"page-fleet": {Width: 1200, Height: 780}, "page-fleet-dark": {Width: 1200, Height: 780, Dark: true}, "page-fleet-phone": {Width: 390, Height: 780, Phone: true},
	} {
		tab := b.Tab(t, s, v)
		tab.Login(s.Token)
		tab.Eventually(`["failed", "problem", "drifting", "held", "operating", "suspended", "stopped", "absent"].map(h => document.querySelectorAll(".cell.h-" + h).length).join("")`, "11111111")
		picture(tab, name)
	}
	tab := b.Tab(t, s, browser.View{Width: 1200, Height: 900})
	tab.Login(s.Token)
	tab.Open("/ui/instances/" + browser.ID(3))
	picture(tab, "page-instance")
	tab.Open("/ui/git")
	picture(tab, "page-git")
	tab.Open("/ui/instances/" + browser.ID(1))
	tab.Press(`a[href^="/ui/operations/"]`)
	picture(tab, "page-operation")
	tab.Open("/ui/instances/" + browser.ID(2))
	tab.Press(`form:has(input[name=type][value=SCALE_OUT]) button`)
	picture(tab, "page-proposal")
}

// halfway is the page of a rollout that waits for its second approval, one of whose sites has failed.
func halfway(t *testing.T, b *browser.Browser) *browser.Tab {
	t.Helper()
	const sites, broken = 24, 5
	files := map[string]string{}
	for n := 1; n <= sites; n++ {
		site := fmt.Sprintf("%s-%02d", []string{"tokyo", "osaka", "nagoya"}[n%3], n)
		files["instances/"+site+"/amf/vnf.yaml"] = browser.VNF(n, "amf-"+site, "")
	}
	s, cloud := browser.Small(t, files)
	for n := 1; n <= sites; n++ {
		browser.Await(t, s, n, "INSTANTIATED")
	}
	s.PushPackages(t, []string{nextVnfd}, process.NextVersion(t, process.SmallPackage(), "next", process.SmallVnfd, nextVnfd, "'1.0'", "'2.0'"))
	cloud.Fail(browser.Object(broken), "the image small:2 isn't there")
	s.PushFiles(t, map[string]string{"rollouts/amf-2.0.yaml": "select: {folders: [instances/**]}\nto: {vnfdId: " + nextVnfd + "}\n" +
		"order: [{instances: [instances/tokyo-03/amf]}, {percent: 50}, {percent: 100}]\natOnce: 20\nafter: {approve: true}\nfailures: {budget: 2, then: rollback}\n"})
	tab := b.Tab(t, s, browser.View{Width: 1200, Height: 900})
	tab.Login(s.Token)
	tab.Open("/ui/rollouts/amf-2.0")
	approve := func(wave string) {
		tab.Eventually(`document.querySelector("#wave-`+wave+`[aria-current]") && !document.getElementById("do-approve").disabled`, true)
	}
	approve("1")
	tab.Press("#do-approve")
	tab.Press("#commit-now")
	tab.Open("/ui/rollouts/amf-2.0")
	approve("2")
	return tab
}

// BenchmarkFirstPaint is how long a browser waits, with the answer of the server in it, for the
// first thing to see of a fleet of 10,000 instances. Times are those of the browser's own clock;
// what the loop says beside them includes much that nobody waits for.
func BenchmarkFirstPaint(b *testing.B) {
	const instances = 10_000
	files := map[string]string{}
	for n := range instances {
		files[fmt.Sprintf("instances/region-%02d/site-%03d/upf-%05d/vnf.yaml", n/1000, n/50, n)] = browser.VNF(n, fmt.Sprintf("upf-%05d", n), "state: notInstantiated\n")
	}
	s := browser.Serve(b, nil)
	if err := s.Stop(); err != nil {
		b.Fatal(err)
	}
	if err := process.Fill(b.Context(), s.Desired(), "Many", files); err != nil {
		b.Fatal(err)
	}
	s = process.Start(b, s.Data)
	tab := browser.New(b).Tab(b, s, browser.View{})
	tab.Login(s.Token)
	tab.Eventually(`document.getElementById("found").textContent.startsWith("10000 instances")`, true)
	var answer, paint float64
	n := 0
	for b.Loop() {
		tab.Open("/ui/")
		tab.Eventually(`performance.getEntriesByName("first-contentful-paint").length`, 1)
		var at [2]float64
		tab.Into(`[performance.getEntriesByType("navigation")[0].responseEnd, performance.getEntriesByName("first-contentful-paint")[0].startTime]`, &at)
		answer, paint, n = answer+at[0], paint+at[1], n+1
	}
	b.ReportMetric(answer/float64(n), "ms/answer")
	b.ReportMetric(paint/float64(n), "ms/first-paint")
	b.ReportMetric(0, "ns/op")
}
