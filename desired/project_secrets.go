package desired

import (
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxPrefix bounds an entry of "secrets" in a project's file, in bytes.
const maxPrefix = 4096

// envPrefix is the name of a variable, or how such a name begins.
var envPrefix = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// secretPrefix reads an entry of "secrets": what references of the project's instances may name.
func (d *document) secretPrefix(n *yaml.Node, where string) string {
	const remedy = "write a directory or file (file:/etc/jibe/secrets/lisbon/), a variable (env:JIBE_SECRET_LISBON), or how variables begin, with \"_\" at its end (env:JIBE_SECRET_LISBON_)"
	before := len(d.problems)
	s := d.text(n, where, maxPrefix)
	if len(d.problems) > before {
		return ""
	}
	file, isFile := strings.CutPrefix(s, RefFile)
	switch name, isEnv := strings.CutPrefix(s, RefEnv); {
	case isFile && file != "/" && path.IsAbs(file) && path.Clean(file) == strings.TrimSuffix(file, "/") && !strings.ContainsAny(file, "*\x00\n"):
	case isEnv && envPrefix.MatchString(name) && strings.Trim(name, "_") != "":
	default:
		d.fail(n, remedy, "%q can't be %q", where, clip(s))
		return ""
	}
	return s
}

// MayName reports whether instances of the project may refer to a variable or file. A prefix of files is a directory with
// all that is below it, or one file; a prefix of variables that ends in "_" is all whose names begin so, any other one is
// that variable.
func (p *Project) MayName(ref string) bool {
	return slices.ContainsFunc(p.Secrets, func(prefix string) bool {
		if file, ok := strings.CutPrefix(ref, RefFile); ok {
			dir, is := strings.CutPrefix(prefix, RefFile)
			dir, file = path.Clean(dir), path.Clean(file)
			return is && (file == dir || strings.HasPrefix(file, dir+"/"))
		}
		name, is := strings.CutPrefix(prefix, RefEnv)
		env, ok := strings.CutPrefix(ref, RefEnv)
		return is && ok && (env == name || strings.HasSuffix(name, "_") && strings.HasPrefix(env, name))
	})
}

// References returns the references to secrets in files under vims/ and in peers.yaml. Field begins with the file.
func (s *Settings) References() []Reference {
	var out []Reference
	add := func(field, ref string) {
		if IsRef(ref) {
			out = append(out, Reference{Field: field, Ref: ref})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.VIMs)) {
		for _, r := range s.VIMs[name].References() {
			add(VIMFile(name)+": "+r.Field, r.Ref)
		}
	}
	for _, p := range s.Peers {
		at, c := PeersFile+": "+p.Name+": ", p.Credentials
		add(at+"caCert", p.CACert)
		add(at+"credentials.password", c.Password)
		add(at+"credentials.clientPassword", c.ClientPassword)
		add(at+"credentials.clientCert", c.ClientCert)
		add(at+"credentials.clientKey", c.ClientKey)
	}
	return out
}

// References returns the references to secrets in the file.
func (v *VIM) References() []Reference {
	c := v.Credentials
	all := []Reference{
		{Field: "kubeconfig", Ref: v.Kubeconfig}, {Field: "clouds", Ref: v.Clouds}, {Field: "caCert", Ref: v.CACert},
		{Field: "credentials.token", Ref: c.Token}, {Field: "credentials.password", Ref: c.Password},
		{Field: "credentials.clientCert", Ref: c.ClientCert}, {Field: "credentials.clientKey", Ref: c.ClientKey},
		{Field: "credentials.applicationCredentialSecret", Ref: c.ApplicationCredentialSecret},
		{Field: "prometheus.caCert", Ref: v.Prometheus.CACert}, {Field: "prometheus.token", Ref: v.Prometheus.Token},
	}
	return slices.DeleteFunc(all, func(r Reference) bool { return !IsRef(r.Ref) })
}

// BringsReferences returns the references that a change of an instance brings: those that stood nowhere in it before,
// in params, or in a connection with the same endpoint. What the instance has already goes on, unless it comes into
// another project. before may be nil.
func (s *Settings) BringsReferences(before, after *Instance) []Reference {
	type place struct {
		own           bool
		endpoint, ref string
	}
	at := func(r Reference) place {
		return place{r.Connection != "", EndpointForm(r.Endpoint), cmp.Or(cleanRef(r.Ref), r.Ref)}
	}
	stood := map[place]bool{}
	if before != nil && s.ProjectNameOf(before.Dir) == s.ProjectNameOf(after.Dir) {
		for _, r := range before.References() {
			stood[at(r)] = true
		}
	}
	return slices.DeleteFunc(after.References(), func(r Reference) bool { return stood[at(r)] })
}

// cleanRef is a reference to a file with its path cleaned, "" for another one.
func cleanRef(ref string) string {
	if file, ok := strings.CutPrefix(ref, RefFile); ok {
		return RefFile + path.Clean(file)
	}
	return ""
}
