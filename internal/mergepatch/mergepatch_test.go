package mergepatch_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/jibe-vnfm/jibe/internal/mergepatch"
)

type object = map[string]any

// decoded reads a document of a test.
func decoded(t testing.TB, text string) object {
	t.Helper()
	var v object
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Appendix A of RFC 7396, as far as target, patch and result are objects.
func TestApplyDoesTheExamplesOfTheRFC(t *testing.T) {
	for _, x := range []struct{ target, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		got := mergepatch.Apply(decoded(t, x.target), decoded(t, x.patch))
		if diff := cmp.Diff(decoded(t, x.want), got); diff != "" {
			t.Errorf("%s by %s (-want +got):\n%s", x.target, x.patch, diff)
		}
	}
}

// The patches of Appendix A that aren't objects replace a document as a whole; below a
// member they do the same.
func TestApplyReplacesWhatIsNoObject(t *testing.T) {
	for _, x := range []struct{ target, patch, want string }{
		{`{"x":["a","b"]}`, `{"x":["c","d"]}`, `{"x":["c","d"]}`},
		{`{"x":{"a":"b"}}`, `{"x":["c"]}`, `{"x":["c"]}`},
		{`{"x":{"a":"foo"}}`, `{"x":"bar"}`, `{"x":"bar"}`},
		{`{"x":[1,2]}`, `{"x":{"a":"b","c":null}}`, `{"x":{"a":"b"}}`},
		{`{"x":"y"}`, `{"x":{}}`, `{"x":{}}`},
		{`{"x":{"a":1}}`, `{"x":{}}`, `{"x":{"a":1}}`},
		{`{"x":1}`, `{}`, `{"x":1}`},
		{`{"x":{"n":null}}`, `{"x":{"a":1}}`, `{"x":{"n":null,"a":1}}`},
		{`{"x":null}`, `{"x":{"a":null}}`, `{"x":{}}`},
		{`{}`, `{"x":[null,{"a":null}]}`, `{"x":[null,{"a":null}]}`},
		{`{"x":1}`, `{"x":[{"a":null}]}`, `{"x":[{"a":null}]}`},
		{`{"<&>":1}`, `{"<&>":2,"":3}`, `{"<&>":2,"":3}`},
	} {
		got := mergepatch.Apply(decoded(t, x.target), decoded(t, x.patch))
		if diff := cmp.Diff(decoded(t, x.want), got); diff != "" {
			t.Errorf("%s by %s (-want +got):\n%s", x.target, x.patch, diff)
		}
	}
}

func TestApplyKeepsTheTypesOfValues(t *testing.T) {
	target := object{"whole": 1.0, "int": int64(1) << 62, "list": []any{int64(1), 1.0}, "infinite": math.Inf(1)}
	got := mergepatch.Apply(target, object{"given": json.Number("1e3"), "inner": object{"flag": true}})
	want := maps.Clone(target)
	want["given"], want["inner"] = json.Number("1e3"), object{"flag": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestApplyMakesADocumentOfNothing(t *testing.T) {
	for _, got := range []object{mergepatch.Apply(nil, nil), mergepatch.Apply(nil, object{"a": nil})} {
		if got == nil || len(got) > 0 {
			t.Errorf("got %#v", got)
		}
	}
	if diff := cmp.Diff(object{"a": object{}}, mergepatch.Apply(nil, object{"a": object(nil)})); diff != "" {
		t.Error(diff)
	}
}

func TestJoinKeepsWhatIsRemoved(t *testing.T) {
	for _, x := range []struct{ earlier, later, want string }{
		{`{"a":1}`, `{"a":null}`, `{"a":null}`},
		{`{"a":null}`, `{"b":1}`, `{"a":null,"b":1}`},
		{`{"a":null}`, `{"a":{"b":null}}`, `{"a":{"b":null}}`},
		{`{"a":"s"}`, `{"a":{"b":null,"c":1}}`, `{"a":{"b":null,"c":1}}`},
		{`{"a":{"b":1}}`, `{"a":{"c":null}}`, `{"a":{"b":1,"c":null}}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":1}}`},
	} {
		got := mergepatch.Join(decoded(t, x.earlier), decoded(t, x.later))
		if diff := cmp.Diff(decoded(t, x.want), got); diff != "" {
			t.Errorf("%s, then %s (-want +got):\n%s", x.earlier, x.later, diff)
		}
	}
}

// documents draws documents and patches with few names, so that they meet often.
func documents() *rapid.Generator[object] { return objects(3) }

func objects(depth int) *rapid.Generator[object] {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), anything(depth), 0, 4)
}

func anything(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Int64Range(0, 3).AsAny(), rapid.Float64Range(0, 3).AsAny(),
		rapid.SampledFrom([]string{"", "x"}).AsAny(),
	}
	if depth > 0 {
		kinds = append(kinds, objects(depth-1).AsAny(), rapid.SliceOfN(anything(depth-1), 0, 2).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// reference is the pseudocode of RFC 7396 clause 2.
func reference(target, patch any) any {
	changes, ok := patch.(object)
	if !ok {
		return patch
	}
	out := object{}
	if t, ok := target.(object); ok {
		maps.Copy(out, t)
	}
	for name, v := range changes {
		if v == nil {
			delete(out, name)
		} else {
			out[name] = reference(out[name], v)
		}
	}
	return out
}

func TestApplyDoesAsThePseudocodeOfTheRFC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		holdAgainstReference(t, documents().Draw(t, "target"), documents().Draw(t, "patch"))
	})
}

func FuzzMergePatch(f *testing.F) {
	f.Add(`{"a":{"b":1,"c":[1]}}`, `{"a":{"b":null,"d":{"e":null}}}`)
	f.Add(`{}`, `{"a":[{"b":null}]}`)
	f.Fuzz(func(t *testing.T, target, patch string) {
		var was, by object
		if json.Unmarshal([]byte(target), &was) == nil && json.Unmarshal([]byte(patch), &by) == nil {
			holdAgainstReference(t, was, by)
		}
	})
}

// holdAgainstReference also checks that neither argument is altered.
func holdAgainstReference(t interface{ Fatalf(string, ...any) }, target, patch object) {
	was := fmt.Sprintf("%#v %#v", target, patch)
	got := mergepatch.Apply(target, patch)
	if diff := cmp.Diff(reference(target, patch), any(got)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	if is := fmt.Sprintf("%#v %#v", target, patch); is != was {
		t.Fatalf("an argument was altered: %s, it was %s", is, was)
	}
}

// Two patches in succession can do what none can do alone: the first puts a value that is no
// object in the place of one. But for that, joining them is the same.
func TestJoinDoesAsBothInSuccession(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc, first, second := documents().Draw(t, "doc"), documents().Draw(t, "first"), documents().Draw(t, "second")
		if replacesThenMerges(first, second) {
			t.Skip("no single patch does this")
		}
		want := mergepatch.Apply(mergepatch.Apply(doc, first), second)
		if diff := cmp.Diff(want, mergepatch.Apply(doc, mergepatch.Join(first, second))); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func replacesThenMerges(first, second object) bool {
	for name, v := range second {
		was, named := first[name]
		inner, isObject := v.(object)
		if !named || !isObject {
			continue
		}
		if before, ok := was.(object); !ok || replacesThenMerges(before, inner) {
			return true
		}
	}
	return false
}
