package browser_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jibe-vnfm/jibe/test/browser"
)

func TestEachPageIsAccessibleAndLooksAsItShouldInEachView(t *testing.T) {
	t.Parallel()
	s := browser.Sample(t)
	b := browser.New(t)
	views := browser.Views()
	for _, name := range slices.Sorted(maps.Keys(views)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tab := b.Tab(t, s, views[name])
			tab.Expect("404")
			tab.Open("/ui/login")
			tab.Accessible()
			tab.Looks("login-" + name)
			tab.Login(s.Token)
			tab.Eventually(`document.querySelectorAll(".h-operating.cell").length * 10 + document.querySelectorAll(".h-drifting.cell").length`, 11)
			tab.Eventually(`document.querySelectorAll(".h-failed.cell").length * 10 + document.querySelectorAll(".h-stopped.cell").length`, 11)
			if wide := tab.Eval(`document.documentElement.scrollWidth > innerWidth`); wide != "false" {
				t.Error("the page is wider than the screen")
			}
			tab.Accessible()
			tab.Looks("fleet-" + name)
			tab.Open("/ui/?q=nothing-is-like-this")
			tab.Accessible()
			tab.Open("/ui/no-such-page")
			tab.Accessible()
			tab.Looks("error-" + name)
			tab.Clean()
		})
	}
}
