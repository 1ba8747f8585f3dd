package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/jibe-vnfm/jibe/test/process"
)

func TestWhatTheCloudHasNotIsSaidBeforeAStackExists(t *testing.T) {
	c := newFakeCloud(t, grouped1)
	// A package that Heat takes for nonsense.
	odd := "e2e00000-0000-4000-8000-" + uuid.NewString()[24:]
	d := c.clone(t, "packages/packages.git")
	c.lay(filepath.Join(d.Dir(), "odd"), grouped1)
	top := process.WorkTreeAt(t, filepath.Join(d.Dir(), "odd"))
	for _, file := range []string{"Definitions/vm_asg_types.yaml", "Definitions/vm_asg_top.vnfd.yaml"} {
		top.Write(file, strings.ReplaceAll(top.Read(file), grouped1, odd))
	}
	top.Write("BaseHOT/simple/top.yaml", top.Read("BaseHOT/simple/top.yaml")+"\n  odd:\n    type: OS::Cinder::Volume\n    properties: {sise: 1}\n")
	d.Push("Publish nonsense")
	c.process.AwaitPackages(c, odd)

	nfv := func(vdu string, value object) object {
		return object{"nfv": object{"VDU": object{vdu: value}}}
	}
	type trial struct {
		vnfd  string
		body  object
		names string
		path  string
		id    string
	}
	body := func() object {
		return object{"flavourId": "simple", "vimConnectionInfo": object{"core": c.inline()}, "extVirtualLinks": []object{link("front", "net0", "CP1", "CP2")}}
	}
	trials := map[string]*trial{
		"image":    {vnfd: grouped1, body: body(), names: "no-such-image"},
		"flavour":  {vnfd: grouped1, body: body(), names: "no.such.flavour"},
		"network":  {vnfd: grouped1, body: body(), names: "no-such-network"},
		"template": {vnfd: odd, body: body(), names: "sise"},
	}
	trials["image"].body["additionalParams"] = nfv("VDU1", object{"vcImageId": "no-such-image"})
	trials["flavour"].body["additionalParams"] = nfv("VDU2", object{"computeFlavourId": "no.such.flavour"})
	trials["network"].body["extVirtualLinks"] = []object{link("front", "no-such-network", "CP1", "CP2")}
	for _, x := range trials {
		x.id = c.own(c.create(x.vnfd))
		x.path = c.begin(t, x.id, "instantiate", x.body)
	}
	for name, x := range trials {
		op := c.await(t, x.path, "ROLLED_BACK")
		if said := op.text("error", "detail"); !strings.Contains(said, x.names) {
			t.Errorf("%s: the error is %q, want %q in it", name, said, x.names)
		}
		c.nothingIsLeft(x.id)
		if s := c.show(t, x.id).text("instantiationState"); s != "NOT_INSTANTIATED" {
			t.Errorf("%s: the instance is %s", name, s)
		}
		c.must(t, 204, "DELETE", instances+"/"+x.id, nil)
	}
}

func TestAWrongPasswordIsSaidAndShownNowhere(t *testing.T) {
	c := newFakeCloud(t, grouped1)
	c.process.Kill()
	c.server = serve(t, c.data, "--start-timeout", "20s")
	id := c.own(c.create(grouped1))
	wrong := c.inline()
	access, _ := wrong["accessInfo"].(object)
	for _, secret := range []string{"password", "applicationCredentialSecret"} {
		if access[secret] != nil {
			access[secret] = "wrong-pa55word"
		}
	}
	body := object{"flavourId": "simple", "vimConnectionInfo": object{"core": wrong}, "extVirtualLinks": []object{link("front", "net0", "CP1", "CP2")}}
	op := c.ended(t, c.begin(t, id, "instantiate", body))
	if said := op.text("error", "detail"); op.text("operationState") != "ROLLED_BACK" || !strings.Contains(said, "401") && !strings.Contains(said, "credentials") {
		t.Errorf("with a wrong password the operation is %s: %q", op.text("operationState"), said)
	}
	c.nothingIsLeft(id)
	c.withoutSecrets(id, c.secret(), "wrong-pa55word")
}
