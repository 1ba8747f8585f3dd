package sealed_test

import (
	"bytes"
	"testing"

	"github.com/jibe-vnfm/jibe/internal/sealed"
)

func TestASealedRecordIsTakenOnlyAsItWasWritten(t *testing.T) {
	t.Parallel()
	s := sealed.Sealer{Key: []byte("the installation's")}
	object := []byte(`{"id":"a","callback":"https://nfvo"}`)
	value := s.Seal("subscription/a", object)
	if got, proven := s.Open("subscription/a", value); !proven || !bytes.Equal(got, object) {
		t.Fatalf("%q, proven %v", got, proven)
	}

	for i := range value {
		changed := bytes.Clone(value)
		changed[i] ^= 1
		if _, proven := s.Open("subscription/a", changed); proven {
			t.Errorf("%q is proven", changed)
		}
	}
	other := s.Seal("subscription/b", []byte(`{"id":"b","callback":"https://other"}`))
	_, seal := sealed.Split(other)
	for name, value := range map[string][]byte{
		"without a seal":        object,
		"with another's seal":   append(append(object[:len(object)-1:len(object)-1], `,"seal":"`+seal+`"`...), '}'),
		"with a second seal":    s.Seal("subscription/b", value),
		"with a later member":   append(value[:len(value)-1:len(value)-1], `,"callback":"https://evil"}`...),
		"with an earlier one":   append([]byte(`{"callback":"https://evil",`), value[1:]...),
		"of another key":        sealed.Sealer{Key: []byte("another's")}.Seal("subscription/a", object),
		"of another record":     other,
		"of a name that slides": s.Seal("subscription/", append([]byte("a"), object...)),
		"empty":                 nil,
	} {
		if _, proven := s.Open("subscription/a", value); proven {
			t.Errorf("one %s is proven: %q", name, value)
		}
	}
	if _, proven := s.Open("subscription/b", value); proven {
		t.Error("it is proven under another key of the store")
	}
}

func TestARecordOfAFileNeedsNoSeal(t *testing.T) {
	t.Parallel()
	object := []byte(`{"id":"a"}`)
	if got, proven := (sealed.Sealer{Key: []byte("k"), Trusting: true}).Open("x", object); !proven || !bytes.Equal(got, object) {
		t.Errorf("%q, proven %v", got, proven)
	}
	if got := (sealed.Sealer{}).Seal("x", object); !bytes.Equal(got, object) {
		t.Errorf("without a key: %q", got)
	}
}
