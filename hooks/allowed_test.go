package hooks_test

import (
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/hooks"
)

func TestTheHostAllowsHooksByNameAndWhereItSaysSoByURLAndRefs(t *testing.T) {
	vendor := desired.Repository{Name: "vendor", URL: "https://forge.example/vendor.git", Branch: "main", Hooks: true}
	with := func(change func(*desired.Repository)) desired.Repository {
		r := vendor
		change(&r)
		return r
	}
	for name, x := range map[string]struct {
		flags      []string
		repository desired.Repository
		says       string // part of what is to be done; "" where the host allows it
	}{
		"nothing":                    {nil, vendor, "--allow-hooks=vendor"},
		"all":                        {[]string{"*"}, vendor, ""},
		"by name":                    {[]string{"other,vendor"}, vendor, ""},
		"another name":               {[]string{"other"}, vendor, "--allow-hooks=vendor=https://forge.example/vendor.git#main"},
		"by name, URL and branch":    {[]string{"vendor=https://forge.example/vendor.git#main"}, vendor, ""},
		"another URL":                {[]string{"vendor=https://forge.example/vendor.git#main"}, with(func(r *desired.Repository) { r.URL = "https://evil.example/vendor.git" }), "isn't the one any more"},
		"another branch":             {[]string{"vendor=https://forge.example/vendor.git#main"}, with(func(r *desired.Repository) { r.Branch = "topic" }), "isn't the one any more"},
		"tags in place of a branch":  {[]string{"vendor=https://forge.example/vendor.git#main"}, with(func(r *desired.Repository) { r.Branch, r.Tags = "", "main" }), "#tags:main"},
		"tags":                       {[]string{"vendor=https://forge.example/vendor.git#tags:v*"}, with(func(r *desired.Repository) { r.Branch, r.Tags = "", "v*" }), ""},
		"more tags":                  {[]string{"vendor=https://forge.example/vendor.git#tags:v*"}, with(func(r *desired.Repository) { r.Branch, r.Tags = "", "*" }), "#tags:*"},
		"neither branch nor tags":    {[]string{"vendor=https://forge.example/vendor.git#HEAD"}, with(func(r *desired.Repository) { r.Branch = "" }), ""},
		"a branch in place of HEAD":  {[]string{"vendor=https://forge.example/vendor.git#HEAD"}, vendor, "#main"},
		"whom one logs in as":        {[]string{"vendor=https://forge.example/vendor.git#main"}, with(func(r *desired.Repository) { r.URL = "https://me:pass@forge.example/vendor.git" }), ""},
		"a password isn't told":      {nil, with(func(r *desired.Repository) { r.URL = "https://me:pass@forge.example/vendor.git" }), "https://forge.example/"},
		"one of two of the one name": {[]string{"vendor=a#main", "vendor=https://forge.example/vendor.git#main"}, vendor, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var a hooks.Allowed
			for _, text := range x.flags {
				if err := a.Set(text); err != nil {
					t.Fatal(err)
				}
			}
			got := a.Barred(x.repository)
			if (got == "") != (x.says == "") || !strings.Contains(got, x.says) || strings.Contains(got, "pass") {
				t.Errorf("it says %q", got)
			}
		})
	}
}

func TestABadEntryOfAllowedHooksRefusesAll(t *testing.T) {
	for _, text := range []string{"", "vendor,", "=url#main", "vendor=", "vendor=url", "vendor=url#", "vendor=#main", "vendor=url#tags:", "vendor.git/x", "a b"} {
		var a hooks.Allowed
		if err := a.Set("good," + text); err == nil || a.String() != "" {
			t.Errorf("%q: %v, and %q is allowed", text, err, a.String())
		}
	}
}

func TestOnAForgeEachRepositoryWhoseHooksMayRunIsBoundToItsURL(t *testing.T) {
	for text, ok := range map[string]bool{"*": false, "vendor": false, "vendor=u#main,other": false, "vendor=u#main": true} {
		var a hooks.Allowed
		if err := a.Set(text); err != nil {
			t.Fatal(err)
		}
		if err := a.CheckForge(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "URL#BRANCH") {
			t.Errorf("%s: %v", text, err)
		}
	}
	var none hooks.Allowed
	if err := none.CheckForge(); err != nil {
		t.Error(err)
	}
}
