package sol_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/sol"
)

func TestADraftIsWhatTheRequestCommitsAndWritesNothing(t *testing.T) {
	e := setup(t)
	id, _ := e.servers()
	service := e.handler.(*sol.Service)
	admin := auth.Identity{Name: "ann", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Admin}}}
	stop := sol.Task{Caller: admin, Name: "operate", ID: id, Body: map[string]any{"changeStateTo": "STOPPED"}}
	before, commits := e.repo.text(id), len(e.repo.commits)

	d, err := service.Draft(t.Context(), stop)
	if err != nil {
		t.Fatal(err)
	}
	if e.repo.text(id) != before || len(e.repo.commits) != commits {
		t.Fatal("the draft has written something")
	}
	if !strings.HasPrefix(d.Subject, "OPERATE ") || !strings.Contains(d.Text(), "state: stopped") || d.By != "ann <ann@jibe.invalid>" {
		t.Errorf("%+v", d)
	}

	t.Run("a planner may ask for it, and may not do it", func(t *testing.T) {
		planner := stop
		planner.Caller = auth.Identity{Name: "pat", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Planner}}}
		if _, err := service.Draft(t.Context(), planner); err != nil {
			t.Error(err)
		}
		if _, err := service.Do(t.Context(), planner, ""); err == nil || service.Status(err) != 403 {
			t.Errorf("%v", err)
		}
		viewer := stop
		viewer.Caller.Permissions = []auth.Permission{{Role: auth.Viewer}}
		if _, err := service.Draft(t.Context(), viewer); err == nil || service.Status(err) != 403 {
			t.Errorf("%v", err)
		}
	})
	t.Run("another draft than the one that was shown is refused whole", func(t *testing.T) {
		if _, err := service.Do(t.Context(), stop, strings.Repeat("0", 64)); !errors.Is(err, sol.ErrMoved) || service.Status(err) != 409 {
			t.Errorf("%v", err)
		}
		if e.repo.text(id) != before || len(e.repo.commits) != commits {
			t.Error("it has written something")
		}
	})
	op, err := service.Do(t.Context(), stop, d.Digest())
	if err != nil {
		t.Fatal(err)
	}
	if e.repo.text(id) != d.Text() {
		t.Errorf("committed was\n%s\nshown was\n%s", e.repo.text(id), d.Text())
	}
	if o := occurrence(e, op); o.Operation != "OPERATE" || o.Jibe == nil || o.Jibe.RequestedBy != "ann" {
		t.Errorf("%+v", o)
	}
	if _, err := service.Draft(t.Context(), stop); err == nil || service.Status(err) != 409 {
		t.Errorf("while the operation is open: %v", err)
	}
}
