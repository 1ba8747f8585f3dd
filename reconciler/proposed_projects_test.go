package reconciler_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/reconciler"
)

func TestAProposedProjectOpensNoSecretToAPlanner(t *testing.T) {
	t.Parallel()

	const ref = "file:/var/lib/jibe/secrets/kube-a"
	w := newWorld(t, func(c *reconciler.Config) {
		c.Permit = func(settings *desired.Settings, _, after *desired.Instance, _ bool) error {
			if len(after.References()) > 0 && !settings.ProjectOf(after.Dir).MayName(ref) {
				return &drivers.RefusedError{Field: "params", Reason: "the project may not refer to it"}
			}
			return nil
		}
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	before := w.head()
	after := *before
	after.Params = map[string]any{"password": ref}
	head, err := w.repo.Settings()
	if err != nil {
		t.Fatal(err)
	}
	proposed := *head
	proposed.Projects = map[string]*desired.Project{desired.DefaultProject: {Name: desired.DefaultProject, Secrets: []string{ref}}}

	_, reason, refused := reconciler.Refused(w.recon.View().Check(t.Context(), &proposed, before, &after))
	if !refused || reason != "the project may not refer to it" {
		t.Errorf("a planner's settings count: %q", reason)
	}
	if _, reason, refused := reconciler.Refused(w.recon.View().ByAdmin().Check(t.Context(), &proposed, before, &after)); refused && reason == "the project may not refer to it" {
		t.Error("an administrator's don't")
	}
}

func TestAProposedPackageIsGivenNoSecretForAPlanner(t *testing.T) {
	t.Parallel()

	w := newWorld(t, func(c *reconciler.Config) {
		c.Permit = func(*desired.Settings, *desired.Instance, *desired.Instance, bool) error { return nil }
		c.Reveal = func(map[string]any) (map[string]any, error) {
			t.Error("a secret is revealed")
			return nil, nil
		}
	})
	w.commit(file("instantiated", ""))
	w.last(lcm.Instantiate, lcm.Completed)
	before := w.head()
	after := *before
	after.Params = map[string]any{"password": "file:/var/lib/jibe/secrets/east/own"}

	view := w.recon.View().With(catalogue{})
	if field, reason, refused := reconciler.Refused(view.Check(t.Context(), nil, before, &after)); !refused || field != "params" {
		t.Errorf("a package of a planner's choice is rendered with the secret: %q %q", field, reason)
	}
}
