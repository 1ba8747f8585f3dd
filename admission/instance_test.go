package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
)

const (
	webID    = "3a5c1f0e-0000-4000-8000-00000000000a"
	brokenID = "3a5c1f0e-0000-4000-8000-00000000000b"
	file     = "id: " + webID + "\nname: web\nvnfdId: v1\nflavour: simple\n"
)

// newReview is a review at whose head web and twin are; the instance brokenID can't be read.
func newReview(check error) *instanceReview {
	return &instanceReview{
		before: func(id string) (*desired.Instance, error) {
			switch id {
			case webID:
				return desired.ParseInstance("instances/web/vnf.yaml", []byte(file))
			case brokenID:
				return nil, errors.New("no YAML")
			}
			return nil, nil
		},
		check: func(context.Context, *desired.Settings, *desired.Instance, *desired.Instance) error { return check },
		secretNames: func(context.Context, *desired.Instance) desired.SecretNames {
			return desired.SecretNames{}
		},
		named: func(name string) []string {
			return map[string][]string{"web": {"instances/web"}, "twin": {"instances/twin"}}[name]
		},
		proposedNames: map[string][]string{},
	}
}

func TestACandidateIsRefusedWithTheLineThatIsAtFault(t *testing.T) {
	refused := &drivers.RefusedError{Field: "flavour", Reason: "the VNFD has no flavour large"}
	for name, c := range map[string]struct {
		candidate Candidate
		check     error
		want      string
	}{
		"what is sound":                    {Candidate{Dir: "instances/web", File: file}, nil, ""},
		"a field that nothing can carry":   {Candidate{Dir: "instances/web", File: file}, refused, "instances/web/vnf.yaml:4: the VNFD has no flavour large"},
		"text that can't be read":          {Candidate{Dir: "instances/web", File: file + "nonsense: 1\n"}, nil, "instances/web/vnf.yaml:5: "},
		"a removal":                        {Candidate{Dir: "instances/web", Instance: webID}, nil, ""},
		"a removal of what others run on":  {Candidate{Dir: "instances/web", Instance: webID}, refused, "instances/web/vnf.yaml: the VNFD has no flavour large"},
		"a removal of what can't be read":  {Candidate{Dir: "instances/broken", Instance: brokenID}, refused, ""},
		"a secret in clear that comes":     {Candidate{Dir: "instances/web", File: file + "params: {password: wherever}\n"}, nil, "instances/web/vnf.yaml:5: "},
		"a directory that nobody had then": {Candidate{Dir: "instances/new", File: "name: new\nvnfdId: v1\nflavour: simple\n"}, nil, ""},
	} {
		_, problems, err := newReview(c.check).candidate(t.Context(), c.candidate)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var lines []string
		for _, p := range problems {
			lines = append(lines, p.Error())
		}
		if got := strings.Join(lines, "\n"); c.want == "" && got != "" || !strings.HasPrefix(got, c.want) || strings.Contains(got, "wherever") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestACheckThatCanNotBeMadeIsNoRefusal(t *testing.T) {
	_, problems, err := newReview(desired.ErrUnavailable).candidate(t.Context(), Candidate{Dir: "instances/web", File: file})
	if !errors.Is(err, desired.ErrUnavailable) || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestANameThatAnotherInstanceHasIsAWarning(t *testing.T) {
	r := newReview(nil)
	for _, c := range []struct{ dir, name, want string }{
		{"instances/a", "twin", "also that of instances/twin"},
		{"instances/b", "fresh", ""},
		{"instances/c", "fresh", "also that of instances/b"},
	} {
		r.warnings = nil
		if _, problems, err := r.candidate(t.Context(), Candidate{Dir: c.dir, File: "name: " + c.name + "\nvnfdId: v1\nflavour: simple\n"}); err != nil || len(problems) > 0 {
			t.Fatalf("%s: %v, %v", c.dir, problems, err)
		}
		if (len(r.warnings) > 0) != (c.want != "") || c.want != "" && !strings.Contains(r.warnings[0].Error(), c.want) {
			t.Errorf("%s: warnings %v, want %q", c.dir, r.warnings, c.want)
		}
	}
	if _, _, err := r.candidate(t.Context(), Candidate{Dir: "instances/web", File: file}); err != nil || len(r.warnings) > 1 {
		t.Errorf("a name that it had before: %v, %v", r.warnings, err)
	}
}
