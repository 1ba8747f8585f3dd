package osenv

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/jibe-vnfm/jibe/test/kit"
)

func TestMissingCloudSkipsUnlessRequired(t *testing.T) {
	for _, test := range []struct {
		name, cloud, require string
		skipped, failed      bool
	}{
		{name: "no cloud", skipped: true},
		{name: "no cloud, required", require: "1", failed: true},
		{name: "cloud", cloud: "some"},
		{name: "cloud, required", cloud: "some", require: "1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv(EnvCloud, test.cloud)
			t.Setenv(EnvCloudFile, "/some/clouds.yaml")
			t.Setenv(EnvRequireCloud, test.require)
			r := &kit.Recorder{TB: t}
			if got := OpenStack(r); got.Name != test.cloud {
				t.Errorf("the cloud is %q, want %q", got.Name, test.cloud)
			}
			if skipped, failed := r.Ended(); skipped != test.skipped || failed != test.failed {
				t.Errorf("skipped %v, failed %v; want %v, %v", skipped, failed, test.skipped, test.failed)
			}
		})
	}
}

func TestCloudsFileIsLookedForWhereOpenStacksClientsDo(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv(EnvCloudFile, "")
	t.Setenv(EnvCloud, "some")
	if _, err := os.Stat("/etc/openstack/clouds.yaml"); err != nil {
		if c, err := FindCloud(); err == nil {
			t.Fatalf("found %s, where there is none", c.File)
		}
	}
	file := filepath.Join(home, "openstack", "clouds.yaml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("clouds: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := FindCloud(); err != nil || c.File != file {
		t.Fatalf("found %q, %v; want %s", c.File, err, file)
	}
}
