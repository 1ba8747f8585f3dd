package client

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jibe-vnfm/jibe/test/osenv"
)

func TestTheLifeOfAVNFOfVirtualMachinesIsSoAtARealOpenStackToo(t *testing.T) {
	at := osenv.OpenStack(t)
	osenv.NeedFull(t)
	provider, _, err := at.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := startWith(t, provider.IdentityEndpoint, "*", "default: true\n"+at.VIM())
	names := map[string]string{"http://127.0.0.1:9890": s.URL}
	as := func(cloud string) *reader {
		r := newReader(t, names)
		r.env = []string{osenv.EnvCloudFile + "=" + at.File, "OS_CLOUD=" + cloud}
		return r
	}
	as("admin").follow("Enter Jibe in the catalogue")
	r := as(at.Name)
	r.patience = 15 * time.Minute // a server that is replaced takes seconds there, or minutes
	r.session = open(t, r.dir, append(r.env, "OS_TACKER_API_VERSION=2"))
	names["net1"] = "net1-" + uuid.NewString()
	for _, command := range []string{"network create " + names["net1"], "subnet create --network " + names["net1"] + " --subnet-range 10.11.0.0/16 --no-dhcp " + names["net1"]} {
		if said, err := r.session.run(command + " -f value -c name"); err != nil || said != names["net1"] {
			t.Fatalf("%s: %v: %s", command, err, said)
		}
	}
	r.follow("The life of a VNF of virtual machines")
	if said, err := open(t, r.dir, r.env).run("network delete " + names["net1"]); err != nil || said != "" {
		t.Errorf("network delete: %v: %s", err, said)
	}
}
