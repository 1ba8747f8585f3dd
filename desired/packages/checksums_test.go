package packages

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/vnfd/csar"
)

// vouch adds blocks for the file to TOSCA.meta, or to the manifest that it names then,
// with the right checksum.
func (l *lab) vouch(dir, file string, manifest bool) {
	l.Helper()
	block := "\nName: " + file + "\nAlgorithm: SHA-256\nHash: 00\n"
	meta := filepath.Join(dir, "TOSCA-Metadata/TOSCA.meta")
	text, err := os.ReadFile(meta)
	if err != nil {
		l.Fatal(err)
	}
	if manifest {
		l.write(filepath.Join(dir, "vnf.mf"), strings.Replace(block, "Name", "Source", 1))
		block = ""
		text = []byte(strings.Replace(string(text), "Entry-Definitions", "ETSI-Entry-Manifest: vnf.mf\nEntry-Definitions", 1))
	}
	l.write(meta, string(text)+block)
	if err := csar.Rehash(dir); err != nil {
		l.Fatal(err)
	}
}

const vouched = "Files/kubernetes/web.yaml"

func TestAPackageWithAWrongChecksumIsShownWithItsProblemAndNobodyGetsIt(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	for name, manifest := range map[string]bool{"TOSCA-Metadata/TOSCA.meta": false, "vnf.mf": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			up := l.upstream("amf")
			l.put(up, "amf-id", "1.0")
			l.vouch(up, vouched, manifest)
			l.commit(up, "", "v1.0")
			l.write(filepath.Join(up, vouched), "kind: Changed\n")
			l.write(filepath.Join(up, "Files/kubernetes/other.yaml"), "kind: Other\n")
			bad := l.commit(up, "", "v1.1")
			repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*", Hooks: true}
			l.sync(repo)

			problems := l.c.Problems()
			if len(problems) != 1 || problems[0].VnfdID != "amf-id" || problems[0].Version != "1.0" || problems[0].Ref != "v1.1" || problems[0].Tree != bad ||
				!strings.Contains(problems[0].Error(), name+":") || !strings.Contains(problems[0].Error(), vouched+" was changed: its SHA-256 is ") {
				t.Errorf("problems: %+v", problems)
			}
			if list := l.c.List(); len(list) != 1 || list[0].Ref != "v1.0" {
				t.Errorf("list: %+v", list)
			}
			// An older one isn't what was asked for.
			_, err := l.c.Find("amf-id")
			if !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), vouched+" was changed") || !strings.Contains(err.Error(), "jibe package rehash") {
				t.Errorf("find: %v", err)
			}
			if err := l.c.Verify(t.Context(), bad); !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), vouched+" was changed") {
				t.Errorf("verify: %v", err)
			}
			// What runs of it is looked after.
			if got := l.version(bad); got != "1.0" || !l.c.Hooks(bad) {
				t.Errorf("version %s, hooks %v", got, l.c.Hooks(bad))
			}

			if err := csar.Rehash(up); err != nil {
				t.Fatal(err)
			}
			good := l.commit(up, "", "v1.2")
			l.sync(repo)
			if e := l.find("amf-id"); e.Tree != good || l.c.Verify(t.Context(), good) != nil {
				t.Errorf("mended: %+v", e)
			}
		})
	}
}

func TestAListedFileThatIsMissingIsAProblemToo(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	if err := os.Remove(filepath.Join(up, vouched)); err != nil {
		t.Fatal(err)
	}
	l.commit(up, "")
	l.sync(desired.Repository{Name: "amf", URL: "amf"})
	if _, err := l.c.Find("amf-id"); !errors.Is(err, ErrUnsound) || !strings.Contains(err.Error(), vouched+" is listed but isn't in the package") {
		t.Errorf("find: %v", err)
	}
}

func TestAnUnsoundPackageIsNoVersionToFollowButOneToLeave(t *testing.T) {
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	trees := map[string]string{}
	for _, v := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		dir := filepath.Join(up, "amf")
		l.put(dir, "amf-"+v, v)
		l.vouch(dir, vouched, false)
		if v == "1.1.0" {
			l.write(filepath.Join(dir, vouched), "kind: Changed\n")
		}
		trees[v] = l.commit(up, "amf", "v"+v)
		l.write(filepath.Join(dir, vouched), "kind: Deployment\n")
	}
	l.sync(desired.Repository{Name: "amf", URL: "amf", Path: "amf", Tags: "v*"})
	if got := l.versions(trees["1.0.0"], "amf-1.0.0"); got != "1.0.0 of 1.0.0 1.2.0" {
		t.Errorf("from 1.0.0: %s", got)
	}
	if got := l.versions(trees["1.1.0"], "amf-1.1.0"); got != "1.1.0 of 1.0.0 1.2.0" {
		t.Errorf("from 1.1.0: %s", got)
	}
}

func TestAPackageIsCheckedOnceForAllItsVersionsProposalsAndPins(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	l := newLab(t)
	up := l.upstream("amf")
	l.put(up, "amf-id", "1.0")
	l.vouch(up, vouched, false)
	good := l.commit(up, "", "v1.0", "v1.0.1")
	l.write(filepath.Join(up, vouched), "kind: Changed\n")
	bad := l.commit(up, "", "v1.1")
	repo := desired.Repository{Name: "amf", URL: "amf", Tags: "v*"}
	l.sync(repo)
	other, err := l.c.Propose(t.Context(), []desired.Repository{repo, {Name: "twice", URL: "amf", Tags: "v1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	// Whoever would look again finds nothing any more.
	if err := os.Rename(filepath.Join(l.dir, "desired.git"), filepath.Join(l.dir, "gone.git")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Catalogue{"live": l.c, "proposed": other} {
		if err := c.Verify(t.Context(), good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.Verify(t.Context(), bad); !errors.Is(err, ErrUnsound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
