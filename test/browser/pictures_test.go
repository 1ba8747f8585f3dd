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
	dir := os.Getenv(picturesOf)
	if dir == "" {
		t.Skipf("%s names no folder (test/browser/pictures does)", picturesOf)
	}
	s, _ := browser.Sample(t)
	b := browser.New(t)
	picture := func(tab *browser.Tab, name string) {
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
