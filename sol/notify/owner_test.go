package notify_test

import (
	"testing"

	"github.com/jibe-vnfm/jibe/auth"
	"github.com/jibe-vnfm/jibe/lcm"
	"github.com/jibe-vnfm/jibe/sol/notify"
)

func TestAnOwnerIsToldOnlyOfWhatTheySee(t *testing.T) {
	w := newWorldWith(t, nil)
	all, none := newSubscriber(t), newSubscriber(t)
	w.subscribe(notify.Request{CallbackURI: all.URL})
	blind := auth.Identity{Name: "blind", Issuer: auth.IssuerTokens, Permissions: []auth.Permission{{Role: auth.Operator, Projects: []string{"nowhere"}}}}
	sub, err := w.lcm.Create(t.Context(), blind, notify.Request{CallbackURI: none.URL})
	if err != nil {
		t.Fatal(err)
	}
	w.operate("amf", lcm.Scale)
	all.waitFor(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED")
	w.restart() // who owns a subscription outlives the process
	w.operate("smf", lcm.Scale)
	all.waitForAgain(t, "VnfIdentifierCreationNotification amf", "op001 STARTING", "op001 PROCESSING", "op001 COMPLETED",
		"VnfIdentifierCreationNotification smf", "op002 STARTING", "op002 PROCESSING", "op002 COMPLETED")
	none.waitFor(t)
	if _, err := w.lcm.Get(t.Context(), nfvo(), sub.ID); err == nil {
		t.Error("another caller sees it")
	}
}
