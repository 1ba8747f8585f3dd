package kubernetes

import (
	"errors"
	"testing"
)

func TestAnAnswerSaysWhetherItIsShared(t *testing.T) {
	t.Parallel()
	v, err := newVerdicts()
	if err != nil {
		t.Fatal(err)
	}
	q, denied := question{tree: "t"}, errors.New("denied")
	for i, x := range []struct {
		question  question
		namespace string
		answer    error // of the dry run
		everyone  bool  // it holds in all namespaces
		shared    bool
		err       error
	}{
		{q, "a", denied, false, false, denied},
		{q, "a", nil, false, false, nil},
		{q, "a", denied, false, true, nil},
		{q, "b", nil, true, false, nil},
		{q, "c", denied, true, true, nil},
		{question{tree: "u"}, "c", denied, true, false, denied},
	} {
		shared, err := v.ask(t.Context(), x.question, x.namespace, func() error { return x.answer }, func() bool { return x.everyone })
		if shared != x.shared || !errors.Is(err, x.err) {
			t.Errorf("%d: shared %t, %v; want %t, %v", i, shared, err, x.shared, x.err)
		}
	}
}
