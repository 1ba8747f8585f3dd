package hooks

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNoPartOfASecretIsShownHoweverItIsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := rapid.SliceOfN(rapid.StringMatching(`[a-e]{3,40}`), 1, 4).Draw(t, "secrets")
		params := map[string]any{}
		for i, s := range secrets {
			params["password"+string(rune('A'+i))] = s
		}
		var text strings.Builder
		for range rapid.IntRange(1, 60).Draw(t, "pieces") {
			text.WriteString(strings.Repeat("-", rapid.IntRange(0, 1000).Draw(t, "filler")))
			if rapid.Bool().Draw(t, "line ends") {
				text.WriteString("\n")
			}
			text.WriteString(rapid.SampledFrom(secrets).Draw(t, "secret"))
		}
		var shown []string
		w := &tail{redactor: newRedactor(Call{Input: Input{CoordinationParams: params}}), log: func(line string) { shown = append(shown, line) }}
		for rest := text.String(); rest != ""; {
			n := rapid.IntRange(1, 3*maxStderr).Draw(t, "write")
			part := rest[:min(n, len(rest))]
			rest = rest[len(part):]
			if wrote, err := w.Write([]byte(part)); wrote != len(part) || err != nil {
				t.Fatalf("wrote %d of %d: %v", wrote, len(part), err)
			}
		}
		w.close(rapid.Bool().Draw(t, "killed"))
		shown = append(shown, w.text())
		for _, line := range shown {
			// What is left between holes is shorter than anything that is taken for a secret.
			for _, run := range strings.FieldsFunc(line, func(r rune) bool { return r < 'a' || r > 'e' }) {
				if len(run) >= minSecret {
					t.Fatalf("%q is shown", run)
				}
			}
		}
	})
}
