package forge

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// world is a repository on a forge that has the branches main, change-1 and change-2, each a
// commit ahead of main, seen by others than Jibe.
type world interface {
	// settings are those of Jibe's client.
	settings() Settings
	// commit is where a branch is.
	commit(t *testing.T, branch string) string
	// statuses are all that the commit was ever given in a context, oldest first.
	statuses(t *testing.T, commit, context string) []Status
	// comments are all on a pull request, oldest first.
	comments(t *testing.T, number int64) []string
	// merge merges a pull request.
	merge(t *testing.T, number int64)
	// reader are the settings of a client whose token's user may only read.
	reader(t *testing.T) Settings
	// comment is made by somebody else.
	comment(t *testing.T, number int64, text string)
}

// conform is what every client does alike: the obligations of [Client], in the order in which a
// change goes through a forge.
func conform(t *testing.T, w world) {
	client := func(t *testing.T, change func(*Settings)) Client {
		t.Helper()
		s := w.settings()
		if change != nil {
			change(&s)
		}
		c, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := client(t, nil)

	t.Run("a good token is one that may read the repository", func(t *testing.T) {
		if err := c.Check(t.Context()); err != nil {
			t.Error(err)
		}
		const wrong = "0123456789012345678901234567890123456789"
		err := client(t, func(s *Settings) { s.Token = wrong }).Check(t.Context())
		if !errors.Is(err, ErrDenied) || strings.Contains(err.Error(), wrong) {
			t.Errorf("with a wrong token: %v", err)
		}
		err = client(t, func(s *Settings) { s.Repository = strings.Split(s.Repository, "/")[0] + "/nothing" }).Check(t.Context())
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("of a repository that isn't there: %v", err)
		}
	})

	t.Run("a status is said once, and followed by the next", func(t *testing.T) {
		commit := w.commit(t, "change-1")
		long := Status{Context: "jibe/plan", State: Pending, Description: strings.Repeat("é", 300)}
		if err := c.SetStatus(t.Context(), commit, long); err != nil {
			t.Fatal(err)
		}
		pending := Status{Context: "jibe", State: Pending, Description: "2 operations begin", Link: "https://jibe.example/ui/operations"}
		failed := Status{Context: "jibe", State: Failure, Description: "1 of 2 operations failed", Link: "https://jibe.example/ui/operations"}
		good := Status{Context: "jibe", State: Success, Description: "2 operations completed", Link: "https://jibe.example/ui/operations"}
		for _, s := range []Status{pending, pending, failed, failed, pending, good, good} {
			if err := c.SetStatus(t.Context(), commit, s); err != nil {
				t.Fatalf("%s: %v", s.State, err)
			}
		}
		if got, want := fmt.Sprint(w.statuses(t, commit, "jibe")), fmt.Sprint([]Status{pending, failed, pending, good}); got != want {
			t.Errorf("statuses are\n%s\nwant\n%s", got, want)
		}
		if got := w.statuses(t, commit, "jibe/plan"); len(got) != 1 || got[0].State != Pending || !strings.HasPrefix(got[0].Description, "ééé") {
			t.Errorf("the other context has %v", got)
		}
	})

	t.Run("a commit that isn't there is told", func(t *testing.T) {
		if err := c.SetStatus(t.Context(), strings.Repeat("0", 40), Status{Context: "jibe", State: Success}); err == nil {
			t.Error("no error")
		}
	})

	var one PullRequest
	t.Run("a pull request is opened once for two branches", func(t *testing.T) {
		p := Proposal{Branch: "change-1", Base: "main", Title: "Scale the AMF", Text: "For tonight."}
		var err error
		if one, err = c.Open(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if one.Number == 0 || one.Branch != "change-1" || one.Base != "main" || one.Commit != w.commit(t, "change-1") || one.Link == "" {
			t.Errorf("opened: %+v", one)
		}
		again, err := c.Open(t.Context(), p)
		if err != nil || again != one {
			t.Errorf("opened again: %+v, %v", again, err)
		}
		two, err := c.Open(t.Context(), Proposal{Branch: "change-2", Base: "main", Title: "Another", Text: ""})
		if err != nil || two.Number == one.Number {
			t.Errorf("of another branch: %+v, %v", two, err)
		}
		all, err := c.Opened(t.Context(), "main")
		if err != nil || len(all) != 2 || all[0] != one && all[1] != one {
			t.Errorf("open are %+v, %v", all, err)
		}
		if all, err = c.Opened(t.Context(), "change-1"); err != nil || len(all) != 0 {
			t.Errorf("into another base: %+v, %v", all, err)
		}
	})

	t.Run("a pull request has one comment of a name, however many others it has", func(t *testing.T) {
		copied := mark("plan") + "a copy of Jibe's mark by somebody else"
		w.comment(t, one.Number, copied)
		for i := range 55 { // more than a page of the smallest
			w.comment(t, one.Number, fmt.Sprintf("remark %d", i))
		}
		for _, text := range []string{"first plan", "| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"} {
			if err := c.SetComment(t.Context(), one.Number, "plan", text); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.SetComment(t.Context(), one.Number, "outcome", "done"); err != nil {
			t.Fatal(err)
		}
		got := w.comments(t, one.Number)
		if len(got) != 58 || !sameText(got[0], copied) || !sameText(got[56], mark("plan")+"| a | b |\n|---|---|\n| 1 | 2 |") || !sameText(got[57], mark("outcome")+"done") {
			t.Errorf("%d comments; the first %q, the last %q", len(got), got[0], got[max(0, len(got)-2):])
		}
	})

	t.Run("a comment that is too long is cut", func(t *testing.T) {
		if err := c.SetComment(t.Context(), one.Number, "long", strings.Repeat("| row of a table |\n", 10_000)); err != nil {
			t.Fatal(err)
		}
		got := w.comments(t, one.Number)
		if last := got[len(got)-1]; len(last) > maxComment || !strings.HasSuffix(strings.TrimSpace(last), "shows all of it.") {
			t.Errorf("%d bytes, the last of which are %q", len(last), last[max(0, len(last)-100):])
		}
	})

	t.Run("a pull request that isn't there is told", func(t *testing.T) {
		if err := c.SetComment(t.Context(), 999_999, "plan", "text"); !errors.Is(err, ErrNotFound) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("closing twice is the same as once, and opening begins another", func(t *testing.T) {
		for range 2 {
			if err := c.Close(t.Context(), "change-1", "main"); err != nil {
				t.Fatal(err)
			}
		}
		if all, err := c.Opened(t.Context(), "main"); err != nil || len(all) != 1 || all[0].Branch != "change-2" {
			t.Errorf("open are %+v, %v", all, err)
		}
		next, err := c.Open(t.Context(), Proposal{Branch: "change-1", Base: "main", Title: "Again"})
		if err != nil || next.Number == one.Number {
			t.Errorf("opened anew: %+v, %v", next, err)
		}
	})

	t.Run("what became of a pull request is told", func(t *testing.T) {
		if got, err := c.Outcome(t.Context(), one.Number); err != nil || got != (Outcome{}) {
			t.Errorf("of one that was closed: %+v, %v", got, err)
		}
		all, err := c.Opened(t.Context(), "main")
		if err != nil || len(all) == 0 {
			t.Fatalf("open are %+v, %v", all, err)
		}
		at := all[0].Number
		if got, err := c.Outcome(t.Context(), at); err != nil || got != (Outcome{Open: true}) {
			t.Errorf("of one that is open: %+v, %v", got, err)
		}
		w.merge(t, at)
		if got, err := c.Outcome(t.Context(), at); err != nil || got != (Outcome{Merged: w.commit(t, "main")}) {
			t.Errorf("of one that was merged: %+v, %v; main is at %s", got, err, w.commit(t, "main"))
		}
		if is, found, err := c.Proposed(t.Context(), all[0].Branch, "main"); err != nil || !found || is.Number != at || is.Branch != all[0].Branch {
			t.Errorf("of the branches of one that was merged: %+v, %v, %v", is, found, err)
		}
		if is, found, err := c.Proposed(t.Context(), "jibe/op/never", "main"); err != nil || found {
			t.Errorf("of branches that had none: %+v, %v", is, err)
		}
		if _, err := c.Outcome(t.Context(), 999_999); !errors.Is(err, ErrNotFound) {
			t.Errorf("of one that isn't there: %v", err)
		}
	})

	t.Run("a branch that isn't there can't be proposed", func(t *testing.T) {
		if _, err := c.Open(t.Context(), Proposal{Branch: "nowhere", Base: "main", Title: "X"}); err == nil {
			t.Error("no error")
		}
	})

	t.Run("a token that may only read is told", func(t *testing.T) {
		reader, err := New(w.reader(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := reader.Check(t.Context()); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "not write") {
			t.Errorf("got %v", err)
		}
	})
}
