package doctor_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/roles"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/doctor"
	"github.com/jibe-vnfm/jibe/test/osenv"
	"github.com/jibe-vnfm/jibe/test/process"
)

// keystone is the administrator's side of a cloud.
type keystone struct {
	t       *testing.T
	admin   *gophercloud.ServiceClient
	project string // id of the tests' own
}

// newKeystone logs in as the entry "admin" beside the cloud's. It skips the test where there is none,
// as at a cloud that others run.
func newKeystone(t *testing.T, c osenv.Cloud) *keystone {
	t.Helper()
	p, _, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, ok := p.GetAuthResult().(tokens.CreateResult)
	if !ok {
		t.Fatalf("Keystone gave a %T", p.GetAuthResult())
	}
	project, err := token.ExtractProject()
	if err != nil {
		t.Fatal(err)
	}
	p, where, err := osenv.Cloud{File: c.File, Name: "admin"}.Connect(t.Context())
	if err != nil {
		t.Skipf("an administrator makes the users and regions of this test: %v", err)
	}
	admin, err := openstack.NewIdentityV3(p, where)
	if err != nil {
		t.Fatal(err)
	}
	return &keystone{t, admin, project.ID}
}

// later does something when the test is over, whose context has ended by then.
func (k *keystone) later(do func(ctx context.Context) error) {
	k.t.Cleanup(func() {
		if err := do(context.WithoutCancel(k.t.Context())); err != nil {
			k.t.Error(err)
		}
	})
}

// user makes a user with a password and, unless it is "", a role in the project of the tests.
func (k *keystone) user(password, role string) (name string) {
	t, ctx := k.t, k.t.Context()
	t.Helper()
	name = "doctor-" + uuid.NewString()
	u, err := users.Create(ctx, k.admin, users.CreateOpts{Name: name, Password: password, DomainID: "default"}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	k.later(func(ctx context.Context) error { return users.Delete(ctx, k.admin, u.ID).ExtractErr() })
	if role == "" {
		return name
	}
	pages, err := roles.List(k.admin, roles.ListOpts{Name: role}).AllPages(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found, err := roles.ExtractRoles(pages)
	if err != nil || len(found) != 1 {
		t.Fatalf("the role %s: %v, %v", role, found, err)
	}
	if err := roles.Assign(ctx, k.admin, found[0].ID, roles.AssignOpts{UserID: u.ID, ProjectID: k.project}).ExtractErr(); err != nil {
		t.Fatal(err)
	}
	return name
}

// region makes a region in which the catalogue has one service, of the address that it has already.
func (k *keystone) region(only string) (id string) {
	t, ctx := k.t, k.t.Context()
	t.Helper()
	r, err := regions.Create(ctx, k.admin, regions.CreateOpts{ID: "doctor-" + uuid.NewString()}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	k.later(func(ctx context.Context) error { return regions.Delete(ctx, k.admin, r.ID).ExtractErr() })
	address, service := "", ""
	catalogue, err := k.admin.GetAuthResult().(tokens.CreateResult).ExtractServiceCatalog()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogue.Entries {
		if i := slices.IndexFunc(s.Endpoints, func(e tokens.Endpoint) bool { return e.Interface == "public" }); s.Type == only && i >= 0 {
			address, service = s.Endpoints[i].URL, s.ID
		}
	}
	e, err := endpoints.Create(ctx, k.admin, endpoints.CreateOpts{Availability: gophercloud.AvailabilityPublic, Region: r.ID, ServiceID: service, URL: address}).Extract()
	if err != nil {
		t.Fatal(err)
	}
	k.later(func(ctx context.Context) error { return endpoints.Delete(ctx, k.admin, e.ID).ExtractErr() })
	return r.ID
}

// object is an entry of a clouds.yaml.
type object = map[string]any

func TestTheDoctorSaysWhatIsWrongWithTheCredentialsOfAnOpenStack(t *testing.T) {
	c := osenv.OpenStack(t)
	k := newKeystone(t, c)
	text, err := os.ReadFile(c.File)
	if err != nil {
		t.Fatal(err)
	}
	// other is the cloud's entry with something else in it.
	other := func(change func(entry, auth object)) object {
		var file struct{ Clouds map[string]object }
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		entry := file.Clouds[c.Name]
		auth, ok := entry["auth"].(object)
		if !ok || auth["password"] == nil {
			t.Skipf("the cloud %s isn't reached by a password", c.Name)
		}
		change(entry, auth)
		return entry
	}
	const password = "the-pa55word-of-the-doctor"
	reader, stranger := k.user(password, "reader"), k.user(password, "")
	region := k.region("compute")
	trials := map[string]struct {
		entry object
		state doctor.State
		says  []string
	}{
		"well":     {other(func(_, _ object) {}), doctor.OK, []string{"OpenStack (Keystone v3)", "roles: ", "member", "quota: "}},
		"password": {other(func(_, auth object) { auth["password"] = "wrong-pa55word" }), doctor.Failed, []string{"credentials", "401"}},
		"reader": {other(func(_, auth object) { auth["username"], auth["password"] = reader, password }), doctor.Warning,
			[]string{"roles: reader", "a role that may change anything (it has reader only)"}},
		"stranger": {other(func(_, auth object) { auth["username"], auth["password"] = stranger, password }), doctor.Failed, []string{"credentials", "401"}},
		"catalogue": {other(func(entry, _ object) { entry["region_name"] = region }), doctor.Warning,
			[]string{"an endpoint of Heat in the catalogue", "an endpoint of Neutron in the catalogue", "an endpoint of Glance in the catalogue", "an endpoint of Cinder in the catalogue", "quota: "}},
		"away": {other(func(_, auth object) { auth["auth_url"] = "http://127.0.0.1:1/v3" }), doctor.Failed, []string{"127.0.0.1:1"}},
	}
	dir := t.TempDir()
	entries, files := object{}, map[string]string{}
	for name, x := range trials {
		entries[name] = x.entry
		files["vims/"+name+".yaml"] = "type: openstack\nclouds: file:" + filepath.Join(dir, "clouds.yaml") + "\ncloud: " + name + "\n"
	}
	all, err := yaml.Marshal(object{"clouds": entries})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "clouds.yaml"), all, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := process.Start(t, filepath.Join(process.ShortTempDir(t), "data"), "--secret-dir", dir)
	s.PushFiles(t, files)
	out, said, code := s.CLI(t, "doctor", "-o", "json")
	var results []doctor.Result
	if err := json.Unmarshal([]byte(out), &results); err != nil || code != 1 {
		t.Fatalf("jibe doctor ends with %d and %v: %s%s", code, err, out, said)
	}
	for name, x := range trials {
		i := slices.IndexFunc(results, func(r doctor.Result) bool { return r.Name == "VIM "+name })
		if i < 0 {
			t.Errorf("%s isn't looked at: %+v", name, results)
			continue
		}
		r := results[i]
		t.Logf("%s: %s: %s %s", name, r.State, r.Means, r.Do)
		if r.State != x.state || (r.Do == "") != (x.state == doctor.OK) {
			t.Errorf("%s: %+v, want %s, and what to do where it isn't well", name, r, x.state)
		}
		for _, want := range x.says {
			if !strings.Contains(r.Means, want) {
				t.Errorf("%s: %q isn't said: %s", name, want, r.Means)
			}
		}
		for _, secret := range []string{password, "wrong-pa55word"} {
			if strings.Contains(r.Means+r.Do, secret) {
				t.Errorf("%s: a password is shown", name)
			}
		}
	}
}
