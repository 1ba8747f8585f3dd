package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/packaging/internal/image"
	"github.com/jibe-vnfm/jibe/packaging/internal/rootfs"
)

// chart writes the Helm chart as helm package would, with the release's version as its own, and the tag of the
// release's image as the version of what it installs: its default image is the one beside it. helm isn't asked,
// as it would take minutes to build and gives the files the time of now.
func (m *maker) chart() error {
	dir := filepath.Join(m.release.Root, "charts", "jibe")
	t := rootfs.Tree{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		// What an editor or helm left there is no part of it, as .helmignore says.
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), ".") && name != ".helmignore" || strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".tgz") {
			return nil
		}
		data, err := os.ReadFile(file)
		if err == nil && name == "Chart.yaml" {
			data, err = versioned(data, chartVersion(m.release.Version), image.Tag(m.release.Version))
		}
		t.Add("jibe/"+filepath.ToSlash(name), 0o644, data)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the chart: %w", err)
	}
	packed, err := packed(t, m.release.Date)
	if err != nil {
		return err
	}
	return m.write("jibe-"+chartVersion(m.release.Version)+".tgz", packed)
}

var versionLines = map[string]*regexp.Regexp{
	"version":    regexp.MustCompile(`(?m)^version: .*$`),
	"appVersion": regexp.MustCompile(`(?m)^appVersion: .*$`),
}

// versioned is a Chart.yaml with other versions.
func versioned(chart []byte, version, app string) ([]byte, error) {
	for key, value := range map[string]string{"version": version, "appVersion": app} {
		if n := len(versionLines[key].FindAll(chart, -1)); n != 1 {
			return nil, fmt.Errorf("Chart.yaml has %d lines that begin with %s, want one", n, key)
		}
		chart = versionLines[key].ReplaceAllLiteral(chart, []byte(key+": "+strconv.Quote(value)))
	}
	return chart, nil
}

var notSemantic = regexp.MustCompile(`[^0-9A-Za-z-]+`)

// chartVersion is a version as helm wants and orders them, by Semantic Versioning 2.0. As that knows nothing that
// comes after a release and is newer, what comes after v1.2.3 comes before 1.2.4; what no tag
// precedes is older than all.
func chartVersion(version string) string {
	tag, after := version, ""
	tag, changed := strings.CutSuffix(tag, dirty)
	if m := afterTag.FindStringSubmatch(tag); m != nil {
		tag, after = m[1], m[2]+".g"+m[3]
	}
	m := tagged.FindStringSubmatch(tag)
	if m == nil {
		return "0.0.0-unreleased-" + notSemantic.ReplaceAllString(version, "-")
	}
	if changed {
		if after == "" {
			after = "0"
		}
		after += ".dirty"
	}
	number, before := m[1], m[2]
	if after == "" {
		if before == "" {
			return number
		}
		return number + "-" + before
	}
	if before != "" {
		return number + "-" + before + ".0." + after
	}
	dot := strings.LastIndexByte(number, '.')
	patch, _ := strconv.Atoi(number[dot+1:]) // digits, as the expression says
	return fmt.Sprintf("%s.%d-0.%s", number[:dot], patch+1, after)
}
