package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/jibe-vnfm/jibe/admission"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/plan"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func begin(t *testing.T, m *admission.Memory, who string) *admission.Hold {
	t.Helper()
	h, err := m.Begin(t.Context(), who)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestPlansOfAllCallersShareOneBound(t *testing.T) {
	t.Parallel()
	m := admission.NewMemory(1000)
	anna, otto := begin(t, m, "anna"), begin(t, m, "otto")

	if err := anna.Take(900); err != nil {
		t.Fatal(err)
	}
	if err := otto.Take(200); !errors.Is(err, admission.ErrMemoryInUse) {
		t.Errorf("more than there is: %v", err)
	}
	var large *admission.TooLargeError
	if err := anna.Take(200); !errors.As(err, &large) {
		t.Errorf("more than one plan may hold: %v", err)
	}

	anna.End()
	if err := otto.Take(1000); err != nil {
		t.Errorf("after the other plan: %v", err)
	}
	otto.End()
}

func TestACallerPlansOneThingAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := admission.NewMemory(1000)
		first := begin(t, m, "anna")

		second := make(chan *admission.Hold)
		go func() {
			h, err := m.Begin(t.Context(), "anna")
			if err != nil {
				t.Error(err)
			}
			second <- h
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("two plans of one caller are made at once")
		default:
		}
		begin(t, m, "otto").End() // others don't wait

		gone, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := m.Begin(gone, "anna")
			left <- err
		}()
		synctest.Wait()
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("a caller who went away: %v", err)
		}

		first.End()
		(<-second).End()
		begin(t, m, "anna").End()
	})
}

func TestFewPlansOfACallerWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := admission.NewMemory(1000)
		ctx, stop := context.WithCancel(t.Context())
		first := begin(t, m, "anna")
		for range 15 {
			go func() { _, _ = m.Begin(ctx, "anna") }()
		}
		synctest.Wait()

		if _, err := m.Begin(ctx, "anna"); !errors.Is(err, admission.ErrTooManyPlans) {
			t.Errorf("one more: %v", err)
		}

		stop()
		synctest.Wait()
		first.End()
		begin(t, m, "anna").End()
	})
}

func TestAPlanCountsWhatItsTextsUnfoldTo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		least int64
	}{
		"a sequence in a line": {"a: [" + strings.Repeat("0,", 1000) + "0]", 1000 * 300},
		"a sequence in lines":  {strings.Repeat("- 0\n", 1000), 1000 * 300},
		"empty maps":           {"[" + strings.Repeat("{},", 1000) + "]", 1000 * 300},
		"lists in lists":       {strings.Repeat("[", 1000), 1000 * 300},
		"text":                 {strings.Repeat("x", 1000), 1000},
	} {
		m := admission.NewMemory(c.least - 1)
		h := begin(t, m, "anna")
		var large *admission.TooLargeError
		if err := h.TakeFile(c.text); !errors.As(err, &large) {
			t.Errorf("%s: %v", name, err)
		}
		h.End()
	}
}

func TestAPlanCountsEachPreviewOfItsAnswer(t *testing.T) {
	t.Parallel()
	preview := reconciler.Preview{Dir: "instances/a", Steps: []plan.Step{{Object: strings.Repeat("o", 1000), Victims: []string{strings.Repeat("v", 1000)}}},
		Diff: []drivers.Deviation{{Object: strings.Repeat("d", 1000)}}, VDUs: map[string]string{"k": strings.Repeat("m", 1000)}}
	h := begin(t, admission.NewMemory(1<<20), "anna")
	defer h.End()

	made := 0
	for h.TakeAnswer(preview) == nil {
		made++
	}

	if made == 0 || made > 1<<20/8000 { // each is encoded, too
		t.Errorf("%d previews of 4000 bytes fit in a MiB", made)
	}
}
