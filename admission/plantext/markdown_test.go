package plantext

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jibe-vnfm/jibe/admission"
)

// commented is the comment for an answer of the server.
func commented(t *testing.T, answer string) string {
	t.Helper()
	var v admission.Verdict
	if err := json.Unmarshal([]byte(answer), &v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := Markdown(&b, v, admission.GroupPreviews(v.Previews)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestACommentSaysOnceWhatIsTheSameAndShowsWhatOthersWroteLetterByLetter(t *testing.T) {
	site := func(n int) string {
		return fmt.Sprintf(`{"instance": "id%d", "dir": "instances/s%[1]d", "operation": "SCALE", "vdus": {"Deployment/n%[1]d/web": "WEB"},
			"steps": [{"stage": 0, "action": "scale", "object": "Deployment/n%[1]d/web", "from": 3, "to": 2}]}`, n)
	}
	got := commented(t, `{"problems": [], "previews": [`+site(1)+","+site(2)+`,
		{"instance": "x", "dir": "instances/x", "error": "name: <script>alert(1)</script> @all | `+"```"+`"}]}`)
	want := "### Jibe: 2 instances would change\n\n" +
		"| instances | operation | of each |\n|---|---|---|\n" +
		"| instances/x | **can't be planned** |  |\n" +
		"| 2 instances | SCALE | 1 VNFC of Deployment/<namespace>/web goes, 1 object changes |\n\n"
	want = strings.ReplaceAll(want, "Deployment/<namespace>/web", "WEB")
	want += "<details><summary>instances/x: **can't be planned**</summary>\n\ninstances/x\n\n````\nname: <script>alert(1)</script> @all | ```\n````\n</details>\n\n" +
		"<details><summary>2 instances: SCALE</summary>\n\ninstances/s1, instances/s2\n\n```\n   1. scale Deployment/<namespace>/web 3 -> 2\n  1 object changes\n```\n</details>\n\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestACommentIsNeverLongerThanForgesTake(t *testing.T) {
	var previews []string
	for n := range 3000 {
		previews = append(previews, fmt.Sprintf(`{"instance": "i%d", "dir": "instances/s%[1]d", "operation": "SCALE", "steps": [{"action": "scale", "object": "Deployment/n/web", "from": %[1]d, "to": 2, "reason": %q}]}`, n, strings.Repeat("why ", 50)))
	}
	got := commented(t, `{"problems": [], "previews": [`+strings.Join(previews, ",")+`]}`)
	if len(got) > 65_536 || !strings.Contains(got, "3000 instances would change") || !strings.Contains(got, "have no room here") {
		t.Errorf("%d characters: %.300s … %s", len(got), got, got[len(got)-200:])
	}
}
