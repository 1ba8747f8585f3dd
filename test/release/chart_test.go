package release

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/jibe-vnfm/jibe/test/process"
)

// chartName is the chart of the release; its version is what Semantic Versioning makes of the release's.
const chartName = "jibe-0.0.0-unreleased-" + version + ".tgz"

func TestTheChartOfAReleaseIsAsHelmPacksItAndNamesTheReleasesImage(t *testing.T) {
	chart := filepath.Join(dist(t), chartName)
	helm := strings.TrimSpace(run(t, process.Root(), filepath.Join("test", "chart", "helm")))
	if i := strings.LastIndexByte(helm, '\n'); i >= 0 {
		helm = helm[i+1:] // behind what a build says
	}
	packed := t.TempDir()
	run(t, packed, helm, "package", filepath.Join(process.Root(), "charts", "jibe"), "--version", strings.TrimSuffix(strings.TrimPrefix(chartName, "jibe-"), ".tgz"), "--app-version", version)
	if diff := cmp.Diff(chartFiles(t, filepath.Join(packed, chartName)), chartFiles(t, chart)); diff != "" {
		t.Errorf("the chart (-as helm packs it, +in the release):\n%s", diff)
	}
	run(t, packed, helm, "lint", "--strict", chart)
	out := run(t, packed, helm, "template", "jibe", chart, "--namespace", "jibe-system")
	if !strings.Contains(out, `image: "jibe:`+version+`"`) {
		t.Errorf("the chart doesn't run jibe:%s, which is the release's image:\n%s", version, out)
	}
}

// chartFiles are the files of a packed chart; Chart.yaml without its form and comments.
func chartFiles(t *testing.T, archive string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	run(t, dir, "tar", "-xzf", archive)
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err == nil && d.Name() == "Chart.yaml" {
			var about map[string]any
			if err = yaml.Unmarshal(data, &about); err == nil {
				data, err = yaml.Marshal(about)
			}
		}
		files[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
