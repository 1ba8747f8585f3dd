package app

import (
	"net/netip"
	"testing"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/secret"
	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/internal/datadir"
	"github.com/jibe-vnfm/jibe/internal/egress"
)

func TestConnectionsThatCallersNameAreJudgedAsTheirs(t *testing.T) {
	t.Setenv("JIBE_SECRET_THEIRS", "a-token")
	data := &datadir.Dir{Path: t.TempDir()}
	keeper, err := data.Keeper(secret.LockOptions{}, secret.Reach{})
	if err != nil {
		t.Fatal(err)
	}
	shared := netip.MustParseAddr("100.64.0.1")
	o := driverOptions{guard: egress.New(egress.Options{})}

	requested, err := secrets{keeper}.Connection("theirs", desired.VIMConnection{VimType: desired.VIMKubernetes,
		InterfaceInfo: map[string]string{"endpoint": "https://100.64.0.1:6443"}, AccessInfo: map[string]string{"bearer_token": "env:JIBE_SECRET_THEIRS"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.guardFor(requested).Check(shared); err == nil {
		t.Error("a connection of vimConnectionInfo may be in a shared network")
	}

	configured, err := secrets{keeper}.VIM(&desired.VIM{Name: "ours", Type: desired.VIMKubernetes, Endpoint: "https://100.64.0.1:6443"})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.guardFor(configured).Check(shared); err != nil {
		t.Errorf("a VIM of vims/: %v", err)
	}
	if err := o.guardFor(drivers.VIM{}).Check(netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("a VIM of vims/ may be on loopback")
	}
}
