package read

import "testing"

func TestNamesThatLookAlikeAreTheSameName(t *testing.T) {
	t.Parallel()

	for name, others := range map[string][]string{
		"amf":       {"AMF", "\uff41mf", "\u24d0mf"},
		"office":    {"o\ufb03ce", "O\ufb00ice"},
		"caf\u00e9": {"cafe\u0301", "CAF\u00c9"},
		"site2":     {"site\u00b2", "site\uff12"},
	} {
		for _, other := range others {
			if foldName(name) != foldName(other) {
				t.Errorf("%q and %q are two names", name, other)
			}
		}
	}
	if foldName("amf") == foldName("smf") || foldName("site2") == foldName("site3") {
		t.Error("two names are one")
	}
}
