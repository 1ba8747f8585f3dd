package openstack_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jibe-vnfm/jibe/drivers"
	"github.com/jibe-vnfm/jibe/drivers/openstack/openstacktest"
)

// sealed is an instance whose parameters hold references: what they stand for is in the
// source alone.
func sealed(id, kind, clear string) drivers.Source {
	top := strings.NewReplacer("  nfv: {type: json}\n", "  nfv: {type: json}\n  login: {type: "+kind+"}\n").Replace(expanded)
	src := source(id, top, 1)
	const file = "BaseHOT/simple/top.yaml"
	files := src.Package.Files.(fstest.MapFS)
	files[file].Data = []byte(strings.Replace(string(files[file].Data), "      flavor: {get_param: [nfv, VDU, VDU2,", "      metadata: {login: {get_param: login}}\n      flavor: {get_param: [nfv, VDU, VDU2,", 1))
	src.Clear = map[string]any{}
	for k, v := range src.Instance.Params {
		src.Clear[k] = v
	}
	src.Instance.Params["login"], src.Clear["login"] = "age:abc", clear
	src.Secrets = []string{clear}
	return src
}

func TestHeatGetsWhatAReferenceStandsFor(t *testing.T) {
	t.Parallel()

	cloud := fakeCloud(t)
	v := begin(t, cloud.VIM(), fakeSpeed)
	src := sealed(v.id, "string", "plain-login")
	v.reach(src)
	if !slices.ContainsFunc(cloud.Servers(), func(s openstacktest.ServerRecord) bool { return s.Metadata["login"] == "plain-login" }) {
		t.Errorf("no server got the value: %+v", cloud.Servers())
	}
	again := sealed(v.id, "string", "other-login")
	want, err := v.d.Render(again)
	if err != nil {
		t.Fatal(err)
	}
	was, err := v.d.Render(src)
	if err != nil {
		t.Fatal(err)
	}
	if was.Objects[0].Digest == want.Objects[0].Digest {
		t.Error("another value behind the same reference renders the same")
	}
}

func TestARefusalNeverQuotesWhatAReferenceStandsFor(t *testing.T) {
	t.Parallel()

	d := connect(t, fakeCloud(t).VIM(), fast)
	_, err := d.Render(sealed("id-1", "number", "plain-login"))
	var refused *drivers.RefusedError
	if !errors.As(err, &refused) || refused.Field != "params.login" || strings.Contains(err.Error(), "plain-login") {
		t.Errorf("a number that is none: %v", err)
	}
	src := sealed("id-1", "string", "x")
	src.Sealed = errors.New("params.login: the secret isn't there")
	if _, err = d.Render(src); !errors.As(err, &refused) || !strings.Contains(err.Error(), "isn't there") {
		t.Errorf("a reference to nothing: %v", err)
	}
}
