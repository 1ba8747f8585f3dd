package desired_test

import (
	"errors"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

func TestThePlacesOfAnInstance(t *testing.T) {
	conn := func(endpoint, project string) desired.VIMConnection {
		return desired.VIMConnection{VimType: "openstack", InterfaceInfo: map[string]string{"endpoint": endpoint}, AccessInfo: map[string]string{"project": project}}
	}
	settings := &desired.Settings{VIMs: map[string]*desired.VIM{
		"kube": {Name: "kube", Type: desired.VIMKubernetes},
		"lab":  {Name: "lab", Type: desired.VIMOpenStack, Endpoint: "https://lab.example.org/v3", Default: true},
	}}
	for name, tc := range map[string]struct {
		in    desired.Instance
		want  []string
		field string
	}{
		"by name":              {in: desired.Instance{VIM: "kube"}, want: []string{"VIM kube"}},
		"by a name of nothing": {in: desired.Instance{VIM: "gone"}, field: "vim"},
		"the default":          {want: []string{"VIM lab"}},
		"a connection of its own, where nothing is placed": {
			in: desired.Instance{VIMConnections: map[string]desired.VIMConnection{"a": conn("https://a", ""), "b": conn("https://b", "")},
				Placement: map[string]string{"web": "a", "db": "kube", "cache": "kube"}},
			want: []string{"its own connection b (https://b)", "VIM kube", "its own connection a (https://a)"},
		},
		"a VDU at nothing": {in: desired.Instance{Placement: map[string]string{"web": "gone"}}, field: "placement"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := settings.Places(&tc.in)
			var wrong *desired.PlaceError
			if errors.As(err, &wrong) != (tc.field != "") || wrong != nil && wrong.Field != tc.field || err != nil && wrong == nil {
				t.Fatalf("the error is %v, want one of field %q", err, tc.field)
			}
			if len(list) != len(tc.want) {
				t.Fatalf("places %v, want %v", list, tc.want)
			}
			for i, p := range list {
				if p.String() != tc.want[i] {
					t.Errorf("place %d is %s, want %s", i, p, tc.want[i])
				}
			}
		})
	}
	if _, err := (&desired.Settings{}).Places(&desired.Instance{}); err == nil {
		t.Error("without any VIM there is a place")
	}
}

func TestTwoPlacesAreTheSameVIM(t *testing.T) {
	file := func(name, endpoint string) desired.Place {
		return desired.Place{Name: name, File: &desired.VIM{Name: name, Type: desired.VIMOpenStack, Endpoint: endpoint, Project: "one"}}
	}
	conn := func(endpoint, project string) desired.Place {
		return desired.Place{Name: "own", Connection: &desired.VIMConnection{VimType: "openstack",
			InterfaceInfo: map[string]string{"endpoint": endpoint}, AccessInfo: map[string]string{"project": project}}}
	}
	for name, tc := range map[string]struct {
		a, b desired.Place
		want bool
	}{
		"files of one name":                  {file("a", "https://a"), file("a", "https://moved"), true},
		"files of two names":                 {file("a", "https://a"), file("b", "https://a"), false},
		"a connection to what a file names":  {file("a", "https://A:443"), conn("https://a", ""), true},
		"a connection to another project":    {file("a", "https://a"), conn("https://a", "two"), false},
		"two connections to one":             {conn("https://a", "one"), conn("https://a", "one"), true},
		"connections that name no endpoints": {conn("", ""), conn("", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.a.Same(tc.b) != tc.want || tc.b.Same(tc.a) != tc.want {
				t.Errorf("%s and %s: the same is %v", tc.a, tc.b, !tc.want)
			}
		})
	}
}
