package hot_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/openstack/hot"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// Each testdata/*.txtar is a package, what an instance says, and a script. A line of the script is
// "create VDU=n…", "scale VDU=n… -VDU/member…", "apply", "renew VDU/member" or "package
// <input>": what an upgrade renders from then on. The golden file beside it holds every body.
func TestBodiesAreComposedAsTheGoldenFilesShow(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := play(t, open(t, name))
			kit.Golden(t, strings.TrimSuffix(name, ".txtar")+".golden", []byte(got))
		})
	}
}

func play(t *testing.T, a archive) string {
	t.Helper()
	var out strings.Builder
	r, err := a.render(t, "input.json")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	for line := range strings.Lines(a.text["script"]) {
		words := strings.Fields(line)
		fmt.Fprintf(&out, "> %s", line)
		var b *hot.Body
		want := hot.Want{Counts: map[string]int{}, Victims: map[string][]string{}}
		for _, word := range words[1:] {
			if vdu, n, ok := strings.Cut(word, "="); ok {
				if want.Counts[vdu], err = strconv.Atoi(n); err != nil {
					t.Fatal(err)
				}
			} else if vdu, member, ok := strings.Cut(strings.TrimPrefix(word, "-"), "/"); ok {
				want.Victims[vdu] = append(want.Victims[vdu], member)
			}
		}
		switch words[0] {
		case "package":
			if r, err = a.render(t, words[1]); err != nil {
				t.Fatal(err)
			}
			continue
		case "renew":
			vdu, member, _ := strings.Cut(words[1], "/")
			b, err = w.renew(r, vdu, member)
		case "create":
			if b, err = r.Create(want.Counts); err == nil {
				w.update(r, b, nil)
			}
		case "scale", "apply":
			if b, err = r.Update(w.live, want); err == nil {
				w.update(r, b, want.Victims)
			}
		default:
			t.Fatalf("unknown command %s", words[0])
		}
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		data, err := b.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var shown bytes.Buffer
		if err := json.Indent(&shown, data, "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%s\n", shown.String())
		for _, vdu := range []string{"VDU1", "VDU2", "group1"} {
			for _, m := range w.live.Members[vdu] {
				state := "old"
				if m.Digest == r.VDUs[vdu].Digest {
					state = "new"
				}
				fmt.Fprintf(&out, "# %s/%s is %s\n", vdu, m.Name, state)
			}
		}
	}
	return out.String()
}
