package filter

import (
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const resource = `{
  "id": "i1", "vnfInstanceName": "amf (1), it's", "isAutomaticInvocation": true, "startTime": "2026-11-21T02:00:00Z",
  "count": 3, "metadata": {"a/b": "x", "k,1": "y"},
  "instantiatedVnfInfo": {"flavourId": "simple", "scaleStatus": [{"aspectId": "a1", "scaleLevel": 2}, {"aspectId": "a2", "scaleLevel": 0}]}
}`

func decode(t *testing.T, s string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMatchFollowsSOL013(t *testing.T) {
	v := decode(t, resource)
	for in, want := range map[string]bool{
		"":                                         true,
		"(eq,id,i1)":                               true,
		"(neq,id,i1)":                              false,
		"(eq,id,i1);(eq,vnfInstanceName,b)":        false,
		"(eq,vnfInstanceName,'amf (1), it''s')":    true,
		"(cont,vnfInstanceName,zzz,amf)":           true,
		"(ncont,vnfInstanceName,zzz,amf)":          false,
		"(in,id,i0,i1)":                            true,
		"(nin,id,i0,i1)":                           false,
		"(eq,isAutomaticInvocation,true)":          true,
		"(eq,isAutomaticInvocation,false)":         false,
		"(gt,count,2)":                             true,
		"(gte,count,3.0)":                          true,
		"(lt,count,3)":                             false,
		"(lte,count,3)":                            true,
		"(eq,startTime,2026-11-21T03:00:00+01:00)": true,
		"(gt,startTime,2026-11-20T23:59:59Z)":      true,
		"(eq,unknown,x)":                           false,
		"(neq,unknown,x)":                          false,
		"(eq,instantiatedVnfInfo/scaleStatus/aspectId,a2)":  true,
		"(eq,instantiatedVnfInfo/scaleStatus/scaleLevel,2)": true,
		"(eq,instantiatedVnfInfo/scaleStatus/scaleLevel,7)": false,
		"(eq,metadata/a~1b,x)":                              true,
		"(eq,metadata/k~a1,y)":                              true,
		"(eq,metadata/@key,'k,1')":                          true,
		"(eq,metadata/@key,nokey)":                          false,
	} {
		f, err := Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		got, err := f.Match(v)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestSyntaxErrorsAreRefused(t *testing.T) {
	for _, in := range []string{
		"eq,id,1", "(eq,id,1", "(eq,id)", "(eq,id,1,2)", "(like,id,1)", "(eq,id,1);", "(eq,id,1)(eq,id,2)", "(eq,,1)",
		"(eq,id,'1)", "(eq,id,'1'x)", "(eq,a~9,1)", "(eq,a~,1)", "(eq,id,a'b)", "(eq,@key,1)", "(eq,a/@key/b,1)", "(in,id)", "(", "()", "(eq,a(b,1)",
	} {
		if f, err := Parse(in); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v, %v; want ErrSyntax", in, f, err)
		}
	}
}

func TestFiltersThatDoNotFitAreRefused(t *testing.T) {
	v := decode(t, resource)
	for _, in := range []string{
		"(eq,id/x,1)", "(eq,instantiatedVnfInfo,1)", "(eq,count,many)", "(eq,isAutomaticInvocation,1)", "(cont,count,3)",
		"(eq,instantiatedVnfInfo/scaleStatus,1)",
	} {
		f, err := Parse(in)
		if err != nil {
			t.Fatal(in, err)
		}
		if _, err := f.Match(v); !errors.Is(err, ErrStructure) {
			t.Errorf("%s: %v; want ErrStructure", in, err)
		}
	}
}

func TestTheValuesOfWhichOneIsNeededAreFound(t *testing.T) {
	f, err := Parse("(gt,count,1);(eq,id,i1);(in,state,a,b);(eq,a/b,1)")
	if err != nil {
		t.Fatal(err)
	}
	for attr, want := range map[string][]string{"id": {"i1"}, "state": {"a", "b"}, "count": nil, "a": nil, "b": nil} {
		if got, ok := f.OneOf(attr); ok != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("OneOf(%s) = %q, %v", attr, got, ok)
		}
	}
}

func TestSelectors(t *testing.T) {
	shape := Shape{Optional: []string{"b", "c", "d"}, Default: []string{"c", "d"}}
	v := decode(t, `{"a": 1, "b": 2, "c": {"x": 1, "y": [{"p": 1, "q": 2}, {"p": 3}]}, "d": 4}`)
	for _, tt := range []struct{ query, want string }{
		{"", `{"a": 1, "b": 2}`},
		{"exclude_default", `{"a": 1, "b": 2}`},
		{"all_fields", `{"a": 1, "b": 2, "c": {"x": 1, "y": [{"p": 1, "q": 2}, {"p": 3}]}, "d": 4}`},
		{"fields=d", `{"a": 1, "d": 4}`},
		{"fields=b,d", `{"a": 1, "b": 2, "d": 4}`},
		{"fields=c/y/q", `{"a": 1, "c": {"y": [{"q": 2}]}}`},
		{"fields=c/nothing", `{"a": 1}`},
		{"fields=c/x,c", `{"a": 1, "c": {"x": 1, "y": [{"p": 1, "q": 2}, {"p": 3}]}}`},
		{"fields=d&exclude_default", `{"a": 1, "b": 2, "d": 4}`},
		{"exclude_fields=b,c/y/p", `{"a": 1, "c": {"x": 1, "y": [{"q": 2}, {}]}, "d": 4}`},
		{"exclude_fields=a", `{"a": 1, "b": 2, "c": {"x": 1, "y": [{"p": 1, "q": 2}, {"p": 3}]}, "d": 4}`},
	} {
		q, err := url.ParseQuery(tt.query)
		if err != nil {
			t.Fatal(err)
		}
		s, err := ParseSelector(q, shape)
		if err != nil {
			t.Errorf("%s: %v", tt.query, err)
			continue
		}
		if d := cmp.Diff(decode(t, tt.want), s.Apply(v)); d != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.query, d)
		}
	}
	for _, bad := range []string{"all_fields&fields=a", "all_fields&exclude_default", "fields=a&exclude_fields=b", "exclude_fields=a&exclude_default", "fields=a//b", "fields="} {
		q, _ := url.ParseQuery(bad)
		if _, err := ParseSelector(q, shape); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: %v; want ErrSyntax", bad, err)
		}
	}
}

// FuzzParse holds that no input panics, that what is accepted survives being
// written and read again, and that both forms judge a resource alike.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"(eq,id,i1)", "(cont,vnfInstanceName,'a''b',c);(gt,count,2)", "(eq,metadata/@key,'k,1')", "(eq,a~1b,~)", "(in,id,,)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		one, err := Parse(s)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Fatalf("%q: error %v isn't ErrSyntax", s, err)
			}
			return
		}
		two, err := Parse(one.String())
		if err != nil {
			t.Fatalf("%q was accepted, %q is not: %v", s, one, err)
		}
		if d := cmp.Diff(one.exprs, two.exprs); d != "" {
			t.Fatalf("%q: %s", s, d)
		}
		v := decode(t, resource)
		a, errA := one.Match(v)
		b, errB := two.Match(v)
		if a != b || (errA == nil) != (errB == nil) {
			t.Fatalf("%q: %v %v, %v %v", s, a, errA, b, errB)
		}
	})
}
