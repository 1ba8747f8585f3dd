package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/Masterminds/semver/v3"
)

func TestVersionsAreOrderedAsDebianOrdersThem(t *testing.T) {
	// From the oldest to the newest.
	ordered := []string{"156d719-dirty", "v0.9.0", "v1.0.0-rc.1", "v1.0.0-rc.1-3-gabcdef0", "v1.0.0-rc.2", "v1.0.0", "v1.0.0-dirty", "v1.0.0-4-gabcdef0", "v1.0.0-12-gabcdef0-dirty", "v1.0.1", "v1.10.0"}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing, which compares them")
	}
	for i := 1; i < len(ordered); i++ {
		older, newer := debianVersion(ordered[i-1]), debianVersion(ordered[i])
		if out, err := exec.CommandContext(t.Context(), "dpkg", "--compare-versions", older, "lt", newer).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s is not older than %s: %v %s", older, newer, err, out)
		}
	}
}

func TestVersionsOfTheChartAreOrderedAsHelmOrdersThem(t *testing.T) {
	// From the oldest to the newest.
	ordered := []string{"0123456-dirty", "v0.9.0", "v1.0.0-rc.1", "v1.0.0-rc.1-3-g0123456", "v1.0.0-rc.2", "v1.0.0", "v1.0.0-dirty", "v1.0.0-4-gabcdef0", "v1.0.0-12-g0123456-dirty", "v1.0.1", "v1.10.0"}
	var before *semver.Version
	for _, version := range ordered {
		v, err := semver.StrictNewVersion(chartVersion(version))
		if err != nil {
			t.Fatalf("%s is called %s: %v", version, chartVersion(version), err)
		}
		if before != nil && !before.LessThan(v) {
			t.Errorf("%s is called %s, which is not newer than %s", version, v, before)
		}
		before = v
	}
	for version, want := range map[string]string{"v1.2.0": "1.2.0", "v1.2.0-rc.1": "1.2.0-rc.1", "v1.2.0-4-gabcdef0": "1.2.1-0.4.gabcdef0", "v1.2.0-rc.1-2-gabcdef0": "1.2.0-rc.1.0.2.gabcdef0", "156d719": "0.0.0-unreleased-156d719"} {
		if got := chartVersion(version); got != want {
			t.Errorf("%s is called %s, want %s", version, got, want)
		}
	}
}

func TestAChartOfAnotherFormIsNotReleased(t *testing.T) {
	if _, err := versioned([]byte("name: jibe\nversion: 0.1.0\n"), "1.2.0", "v1.2.0"); err == nil || !strings.Contains(err.Error(), "appVersion") {
		t.Errorf("a Chart.yaml without appVersion: %v", err)
	}
	got, err := versioned([]byte("name: jibe\nversion: 0.1.0\nappVersion: devel\n"), "1.2.0", "v1.2.0")
	if want := "name: jibe\nversion: \"1.2.0\"\nappVersion: \"v1.2.0\"\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func TestTheNotesAreTheSectionOfTheVersion(t *testing.T) {
	const log = "# Changelog\n\n## [Unreleased]\n\n- New.\n\n## [1.2.0] - 2026-01-02\n\n- Old.\n\n## [1.1.0] - 2025-01-02\n"
	for _, test := range []struct{ version, want, refused string }{
		{version: "v1.2.0", want: "# Jibe 1.2.0 - 2026-01-02\n\n- Old.\n"},
		{version: "v1.2.0-3-gabcdef0", want: "# Jibe Unreleased\n\n- New.\n"},
		{version: "v1.2.0-dirty", want: "# Jibe Unreleased\n\n- New.\n"},
		{version: "156d719", want: "# Jibe Unreleased\n\n- New.\n"},
		{version: "v1.3.0", refused: "has no section ## [1.3.0]"},
		{version: "v1.1.0", refused: "is empty"},
	} {
		got, err := sectionOf(log, test.version)
		switch {
		case test.refused != "":
			if err == nil || !strings.Contains(err.Error(), test.refused) {
				t.Errorf("%s: %v, want a refusal that says %q", test.version, err, test.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", test.version, err)
		case got != test.want:
			t.Errorf("%s:\n%q, want\n%q", test.version, got, test.want)
		}
	}
}

func TestEveryFileOfTheArchiveHasItsPlaceOnASystem(t *testing.T) {
	for _, name := range []string{"jibe", "LICENSE", "CHANGELOG.md", "THIRD_PARTY_LICENSES", "sbom.cdx.json", "man/jibe.1", "completions/jibe.bash", "completions/_jibe",
		"completions/jibe.fish", "systemd/jibe.service", "systemd/jibe.sysusers", "systemd/jibe.tmpfiles", "systemd/jibe.default"} {
		if to, _ := installed(name); to == "" {
			t.Errorf("%s has none", name)
		}
	}
}
