package desired_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
)

const (
	oneID  = "id: 3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11\n"
	formOf = "vnfdId: b1bb0ce7-ebca-4fa7-95ed-4840d70a1177\nlevels: {vdu1_aspect: 2}\nparams:\n  namespace: amf\n"
)

// heads are beginnings of files that look alike and don't all mean the same.
func heads() []string {
	var out []string
	for _, id := range []string{
		oneID, "id: 00000000-0000-4000-8000-000000000001\n", "id: 3F6C0BD4-4e2b-4b8c-9c51-0b7d1f6b8a11\n",
		"id: 3f6c0bd44e2b-4b8c-9c51-0b7d1f6b8a11-\n", "id: \"3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11\"\n", "id: 12345678-1234-4234-8234-123456789012\n",
		"id: 3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11\r\n", "id: 3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11 # ours\n", "\ufeff" + oneID, "", "---\n" + oneID,
	} {
		for _, name := range []string{
			"name: amf-tokyo-1\n", "name: amf-osaka-22\n", "name: false\n", "name: FALSE1\n", "name: null\n", "name: abcdef # a comment\n", "name: abcdef: x\n", "name: \"abcdef\"\n",
			"name: 0x123456\n", "name: 1.5e10000\n", "name: 2001-01-01\n", "name: abcdef \n", "name:  abcdef\n", "name: abc def\n", "name: |\n", "name: abcdef\r\n", "name: é-tokyo-1\n",
			"name: " + strings.Repeat("n", 255) + "\n", "name: " + strings.Repeat("n", 256) + "\n", "name: NaN.inf\n", "", "# name\n", "name: !!int abcdef\n",
		} {
			out = append(out, id+name)
		}
	}
	return out
}

// rests are what may follow them.
func rests() []string {
	return []string{
		formOf, "flavour: simple\n" + formOf, "  more\n" + formOf, "\n  more\n" + formOf, "# x\n  more\n" + formOf, "- x\n" + formOf, "name: second\n" + formOf,
		oneID + formOf, "", "x", "vnfdId", "---\n" + formOf, formOf + "---\n" + formOf, "...\n" + formOf, "vnfdId: 7\n", formOf + "description: \xff\n",
		formOf + "description: \"a\n" + oneID + "b\"\n", "\"vnfdId\": x\n", "? vnfdId\n: x\n", formOf + "unknown: x\n", "\t" + formOf, "vnfdId: a\r\n",
	}
}

func TestFormsReadWhatTheParserReads(t *testing.T) {
	forms := desired.NewForms(1 << 20)
	for range 2 {
		for _, rest := range rests() {
			for _, head := range heads() {
				sameAsParsed(t, forms, []byte(head+rest))
			}
		}
	}
}

func sameAsParsed(t *testing.T, forms *desired.Forms, data []byte) {
	t.Helper()
	want, wantErr := desired.ParseInstance(someFile, data)
	got, held, err := forms.Parse(someFile, data)
	if fmt.Sprint(err) != fmt.Sprint(wantErr) || err == nil && !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as\n%+v, %v\nwant\n%+v, %v", data, got, err, want, wantErr)
	}
	if err == nil && held <= 0 {
		t.Errorf("%q holds %d bytes", data, held)
	}
}

func FuzzFormsReadWhatTheParserReads(f *testing.F) {
	for _, rest := range rests() {
		f.Add("3f6c0bd4-4e2b-4b8c-9c51-0b7d1f6b8a11", "amf-tokyo-1", rest)
	}
	forms := desired.NewForms(1 << 20)
	f.Fuzz(func(t *testing.T, id, name, rest string) {
		// Read once, the rest is known when it is read again with another head.
		_, _, _ = forms.Parse(someFile, []byte(oneID+"name: another\n"+rest))
		sameAsParsed(t, forms, []byte("id: "+id+"\nname: "+name+"\n"+rest))
	})
}

func TestAFileOfAKnownFormIsReadWithoutTheParser(t *testing.T) {
	forms := desired.NewForms(1 << 20)
	text := func(i int) []byte {
		return fmt.Appendf(nil, "id: 00000000-0000-4000-8000-%012d\nname: amf-tokyo-%d\n%s", i, i, formOf)
	}
	a, _, err := forms.Parse(someFile, text(1))
	if err != nil {
		t.Fatal(err)
	}
	data := text(2)
	var b *desired.Instance
	if n := testing.AllocsPerRun(100, func() { b, _, err = forms.Parse(someFile, data) }); n > 8 || err != nil {
		t.Errorf("it makes %v allocations, %v", n, err)
	}
	if a.Name != "amf-tokyo-1" || b.Name != "amf-tokyo-2" || a.ID == b.ID || a.Params["namespace"] != b.Params["namespace"] {
		t.Errorf("read %+v\nand %+v", a, b)
	}
}
