package desired

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestJSONInOneLineSaysTheSameAndHidesNothing(t *testing.T) {
	for _, text := range []string{
		`{"a": "two  spaces   and three", "b": " \n\t"}`, "{\"a\":\"no-break\u00a0space\"}", "{\"a\":\"turned \u202e round \U000e0001\"}", `{"a":"é ü 漢"}`,
	} {
		line := OneLine([]byte(text))
		if strings.Join(strings.Fields(line), " ") != line || strings.ContainsAny(line, "\u202e\u00a0\U000e0001") {
			t.Errorf("%q in one line is %q", text, line)
		}
		var was, is any
		if json.Unmarshal([]byte(text), &was) != nil || json.Unmarshal([]byte(line), &is) != nil || was.(map[string]any)["a"] != is.(map[string]any)["a"] {
			t.Errorf("%q is %v when it is read again, want %v", line, is, was)
		}
	}
	if got := OneLine([]byte("{")); got != "" {
		t.Errorf("no JSON in one line is %q", got)
	}
}
