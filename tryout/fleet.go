package tryout

import (
	"embed"
	"fmt"
	"path"
	"strings"
	"text/template"

	"github.com/jibe-vnfm/jibe/desired"
)

// packageFiles are templates: all packages of the fleet are made alike.
//
//go:embed package
var packageFiles embed.FS

// product is one version of one VNF package.
type product struct {
	Name, Version, ID, About string
	// Control is the name of the VDU that has one VNFC, Worker that of the one that scales, and of
	// its scaling aspect.
	Control, Worker string
}

func products() []product {
	return []product{
		{"upf", "1.0", "6f1c0b52-2a58-4a0c-9d7e-1f0f5b1e0a10", "A user plane function", "session", "forwarder"},
		{"upf", "1.1", "6f1c0b52-2a58-4a0c-9d7e-1f0f5b1e0a11", "A user plane function", "session", "forwarder"},
		{"amf", "2.4", "6f1c0b52-2a58-4a0c-9d7e-1f0f5b1e0b24", "Access and mobility management", "registry", "handler"},
		{"firewall", "7.2", "6f1c0b52-2a58-4a0c-9d7e-1f0f5b1e0c72", "A firewall", "policy", "filter"},
		{"dns", "9.18", "6f1c0b52-2a58-4a0c-9d7e-1f0f5b1e0d18", "A name server", "zone", "resolver"},
	}
}

// begun is the version that instances begin with: the first of the name.
func begun(name string) product {
	for _, p := range products() {
		if p.Name == name {
			return p
		}
	}
	return product{}
}

// packages are the files of all packages, by their paths in the package repository.
func packages() (map[string]string, error) {
	all, err := template.ParseFS(packageFiles, "package/*")
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for _, p := range products() {
		dir := p.Name + "-" + p.Version
		for from, to := range map[string]string{
			"TOSCA.meta":   "TOSCA-Metadata/TOSCA.meta",
			"top.yaml":     "Definitions/" + p.Name + "_top.vnfd.yaml",
			"types.yaml":   "Definitions/" + p.Name + "_types.yaml",
			"flavour.yaml": "Definitions/" + p.Name + "_df_simple.yaml",
		} {
			var b strings.Builder
			if err := all.ExecuteTemplate(&b, from, p); err != nil {
				return nil, fmt.Errorf("package %s: %w", dir, err)
			}
			files[path.Join(dir, to)] = b.String()
		}
	}
	return files, nil
}

// member is one VNF instance of the fleet.
type member struct {
	dir     string // below instances/
	product product
	level   int
	report  bool // drift is only shown
}

// id is the instance's id, which Jibe derives where a vnf.yaml has none.
func (m member) id() string { return desired.DeriveID("instances/" + m.dir) }

// workers is the key of the workload that scales, as the simulator has it.
func (m member) workers() string { return "Workload/" + m.id() + "/" + m.product.Worker }

// file is the instance's vnf.yaml with a package.
func (m member) file(p product) string {
	text := fmt.Sprintf("name: %s\nvnfdId: %s\nflavour: simple\nlevels: {%s: %d}\n", path.Base(m.dir), p.ID, p.Worker, m.level)
	if m.report {
		text += "drift: report # only show what differs\n"
	}
	return text
}

// fleet is 30 VNF instances at five sites.
func fleet() []member {
	var all []member
	for s, site := range []string{"berlin", "lisbon", "oslo", "prague", "turin"} {
		for n, name := range []string{"amf-1", "dns-1", "firewall-1", "firewall-2", "upf-1", "upf-2"} {
			kind, _, _ := strings.Cut(name, "-")
			all = append(all, member{dir: site + "/" + name, product: begun(kind), level: (s + 2*n) % 4, report: site == "oslo" && kind == "dns"})
		}
	}
	return all
}

// desiredFiles are the files of the desired repository, with whom nothing else runs.
func desiredFiles() map[string]string {
	files := map[string]string{"vims/simulator.yaml": "type: sim # a VIM in the memory of this process\ndefault: true\n"}
	for _, m := range fleet() {
		files["instances/"+m.dir+"/vnf.yaml"] = m.file(m.product)
	}
	return files
}
