package reconciler

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

// left are packages that have left their repository: only what is kept is known.
type left struct {
	Packages
	kept []string
}

var errGone = errors.New("no repository has it")

func (left) Newest(string) (string, error)                        { return "", errGone }
func (l left) Kept(_ context.Context, _ string) ([]string, error) { return l.kept, nil }

func TestAPackageThatHasLeftItsRepositoryIsFoundByWhatTheInstanceRan(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		kept, ran []string // ran: the newest first
		want      string
		says      string
	}{
		"what it ran":                            {[]string{"a"}, []string{"b", "a"}, "a", ""},
		"what it ran last of several":            {[]string{"a", "c"}, []string{"b", "c", "a"}, "c", ""},
		"the only one, which it ran long ago":    {[]string{"a"}, []string{"b"}, "a", ""},
		"several, of which it ran none":          {[]string{"a", "c"}, []string{"b"}, "", "2 builds of it are kept, and this instance ran none: name one of them by package: a, c"},
		"one that nobody ran":                    {nil, []string{"b"}, "", "no repository has it"},
		"one for an instance that never ran any": {[]string{"a"}, []string{""}, "", "no repository has it"},
	} {
		t.Run(name, func(t *testing.T) {
			checker := NewChecker(left{kept: c.kept}, nil, nil)
			checker.earlier = func(_ context.Context, _ string, fn func(*desired.Instance) bool) error {
				for _, tree := range c.ran {
					if fn(&desired.Instance{Package: tree}) {
						break
					}
				}
				return nil
			}
			got, err := checker.newest(t.Context(), &desired.Instance{ID: "x", VnfdID: "v"})
			if got != c.want || (err != nil) != (c.says != "") || err != nil && (!errors.Is(err, errGone) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
