package desired

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// RepositoriesFile lists the package repositories; VIMDir holds a file a VIM.
const (
	RepositoriesFile = "repositories.yaml"
	VIMDir           = "vims"
)

// The values of VIM.Type after parsing. The first two are those of SOL003's
// vimType registry; files may say "kubernetes" and "openstack" for short.
const (
	VIMKubernetes = "ETSINFV.KUBERNETES.V_1"
	VIMOpenStack  = "ETSINFV.OPENSTACK_KEYSTONE.V_3"
	// VIMSim is the in-memory simulator.
	VIMSim = "sim"
)

// settingName is what a VIM or a package repository may be called: it becomes a
// file name and a part of a git ref.
var settingName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.[A-Za-z0-9_-]){0,62}$`)

// NormalVIMType returns the registered name of a VIM type, however it was
// written, and false for one that isn't known.
func NormalVIMType(s string) (string, bool) {
	switch strings.ToLower(s) {
	case "kubernetes", strings.ToLower(VIMKubernetes):
		return VIMKubernetes, true
	case "openstack", strings.ToLower(VIMOpenStack):
		return VIMOpenStack, true
	case VIMSim:
		return VIMSim, true
	}
	return "", false
}

// ParseVIM reads a vims/<name>.yaml strictly; its name is the file's. The error
// is an [*InvalidError] with everything that is wrong.
func ParseVIM(file string, data []byte) (*VIM, error) {
	d := &document{file: file}
	v := &VIM{Name: strings.TrimSuffix(path.Base(file), path.Ext(file))}
	if !settingName.MatchString(v.Name) {
		d.fail(nil, "rename the file: letters, digits, '-', '_' and single dots", "%q can't name a VIM", clip(v.Name))
	}
	n := d.root(data)
	if n == nil {
		if len(d.problems) == 0 {
			d.fail(nil, "write at least \"type:\" and \"kubeconfig:\" or \"endpoint:\"", "the file is empty")
		}
		return nil, d.err()
	}
	str := func(key string, to *string) field {
		return field{key, func(_, n *yaml.Node) { *to = d.text(n, key, maxName) }}
	}
	ref := func(where string, to *string) field {
		key := where[strings.LastIndexByte(where, '.')+1:]
		return field{key, func(_, n *yaml.Node) { *to = d.reference(n, where) }}
	}
	d.mapping(n, "",
		str("id", &v.ID),
		field{"type", func(_, n *yaml.Node) { v.Type = d.vimType(n) }},
		field{"default", func(_, n *yaml.Node) { v.Default = d.boolean(n, "default") }},
		field{"endpoint", func(_, n *yaml.Node) { v.Endpoint = d.endpoint(n, "endpoint") }},
		field{"caCert", func(_, n *yaml.Node) { v.CACert = d.certificate(n, "caCert") }},
		field{"insecure", func(_, n *yaml.Node) { v.Insecure = d.boolean(n, "insecure") }},
		ref("kubeconfig", &v.Kubeconfig),
		field{"credentials", func(_, n *yaml.Node) {
			d.mapping(n, "credentials",
				ref("credentials.token", &v.Credentials.Token),
				field{"username", func(_, n *yaml.Node) { v.Credentials.Username = d.text(n, "credentials.username", maxName) }},
				ref("credentials.password", &v.Credentials.Password),
				ref("credentials.clientCert", &v.Credentials.ClientCert),
				ref("credentials.clientKey", &v.Credentials.ClientKey),
			)
		}},
	)
	if len(d.problems) == 0 {
		d.completeVIM(n, v)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return v, nil
}

// completeVIM refuses a VIM whose parts are right but don't make a connection.
func (d *document) completeVIM(n *yaml.Node, v *VIM) {
	c := v.Credentials
	switch {
	case v.Type == "":
		d.fail(n, "add type: kubernetes (or openstack, sim)", "\"type\" is missing")
	case v.Type == VIMSim:
	case v.Kubeconfig != "" && v.Type != VIMKubernetes:
		d.fail(n, "remove it, and give endpoint and credentials", "\"kubeconfig\" is for Kubernetes only")
	case v.Kubeconfig != "" && (v.Endpoint != "" || v.CACert != "" || v.Insecure || c != Credentials{}):
		d.fail(n, "remove kubeconfig, or endpoint, caCert, insecure and credentials", "\"kubeconfig\" replaces everything else and can't stand beside it")
	case v.Kubeconfig == "" && v.Endpoint == "":
		d.fail(n, "add endpoint: https://… or, for Kubernetes, kubeconfig: file:/path", "the VIM can't be reached: \"endpoint\" is missing")
	case v.Insecure && v.CACert != "":
		d.fail(n, "remove one of them", "\"insecure\" and \"caCert\" contradict each other")
	case (c.Username == "") != (c.Password == ""):
		d.fail(n, "give both or neither", "\"credentials.username\" and \"credentials.password\" belong together")
	case (c.ClientCert == "") != (c.ClientKey == ""):
		d.fail(n, "give both or neither", "\"credentials.clientCert\" and \"credentials.clientKey\" belong together")
	}
}

func (d *document) vimType(n *yaml.Node) string {
	before := len(d.problems)
	s := d.text(n, "type", 0)
	t, ok := NormalVIMType(s)
	if !ok && len(d.problems) == before {
		known := []string{"kubernetes", "openstack", VIMSim}
		remedy := "allowed: " + strings.Join(append(known, VIMKubernetes, VIMOpenStack), ", ")
		if near := nearest(s, known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		d.fail(n, remedy, "VIM type %q isn't known", clip(s))
	}
	return t
}

func (d *document) endpoint(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) > before {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case err == nil && u.User != nil:
		d.fail(n, "move them to credentials, as references", "%q holds credentials", where)
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		d.fail(n, "write it as https://host:port/path", "%q isn't an http(s) URL", where)
	}
	return s
}

// certificate reads PEM text, or a reference to it. A certificate is no secret.
func (d *document) certificate(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 0)
	if len(d.problems) == before && !IsRef(s) && !strings.Contains(s, "-----BEGIN CERTIFICATE-----") {
		d.fail(n, "paste the PEM certificate, or refer to it: file:/path", "%q is neither PEM nor a reference", where)
	}
	return s
}

// ParseRepositories reads repositories.yaml strictly: a list of repositories. An
// empty file is an empty list. The error is an [*InvalidError] with everything
// that is wrong.
func ParseRepositories(file string, data []byte) ([]Repository, error) {
	d := &document{file: file}
	n := d.root(data)
	if n == nil {
		return nil, d.err()
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, "begin each repository with \"- name:\"", "the file must be a list of repositories, not %s", kindOf(n))
		return nil, d.err()
	}
	var out []Repository
	names := map[string]int{}
	for i, c := range n.Content {
		r := d.repository(c, fmt.Sprintf("[%d]", i))
		if first, ok := names[r.Name]; ok && r.Name != "" {
			d.fail(c, "rename one of them", "repository %q is given twice, first in line %d", r.Name, first)
		}
		names[r.Name] = c.Line
		out = append(out, r)
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return out, nil
}

func (d *document) repository(n *yaml.Node, where string) Repository {
	var r Repository
	before := len(d.problems)
	at := func(key string) string { return where + "." + key }
	d.mapping(n, where,
		field{"name", func(_, v *yaml.Node) {
			if r.Name = d.text(v, at("name"), 0); v.ShortTag() == "!!str" && (!settingName.MatchString(r.Name) || strings.HasSuffix(r.Name, ".lock")) {
				d.fail(v, "use letters, digits, '-', '_' and single dots, at most 63", "%q can't name a repository", clip(r.Name))
			}
		}},
		field{"url", func(_, v *yaml.Node) { r.URL = d.gitURL(v, at("url")) }},
		field{"path", func(_, v *yaml.Node) { r.Path = d.relative(v, at("path")) }},
		field{"branch", func(_, v *yaml.Node) {
			if r.Branch = d.text(v, at("branch"), maxName); r.Branch != "" && !validBranch(r.Branch) {
				d.fail(v, "write the branch's short name, such as main", "%q can't be a branch", clip(r.Branch))
			}
		}},
		field{"tags", func(_, v *yaml.Node) {
			r.Tags = d.text(v, at("tags"), maxName)
			if _, err := path.Match(r.Tags, ""); err != nil {
				d.fail(v, "write a pattern such as v*", "%q isn't a pattern of tag names", clip(r.Tags))
			}
		}},
		field{"hooks", func(_, v *yaml.Node) { r.Hooks = d.boolean(v, at("hooks")) }},
	)
	if len(d.problems) > before {
		return r
	}
	switch {
	case r.Name == "":
		d.fail(n, "add name: …", "%q is missing", at("name"))
	case r.URL == "":
		d.fail(n, "add url: …", "%q is missing", at("url"))
	case r.Branch != "" && r.Tags != "":
		d.fail(n, "keep one: branch follows a branch, tags makes each matching tag a version", "%q has both branch and tags", r.Name)
	}
	return r
}

// scpURL is git's short form for ssh, "git@host:path".
var scpURL = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:\s][^\s]*$`)

// gitURL reads what git may fetch: https, ssh, git and file URLs, git@host:path,
// absolute paths, and paths below the data directory's packages/ folder.
func (d *document) gitURL(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 2048)
	if len(d.problems) > before {
		return ""
	}
	bad := func(why string) string {
		d.fail(n, "use https://, ssh://, git:// or file:// URLs, git@host:path, or the path of a bare repository below packages/", "%q %s", where, why)
		return ""
	}
	switch {
	case s == "" || strings.HasPrefix(s, "-") || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return bad("isn't a URL that git can fetch")
	case scpURL.MatchString(s):
		return s
	case strings.Contains(s, "://"):
		u, err := url.Parse(s)
		if err != nil {
			return bad("isn't a URL")
		}
		if _, has := u.User.Password(); has || u.User != nil && u.Scheme == "https" {
			d.fail(n, "remove them, and set up a credential helper or an ssh key for the process", "%q holds credentials", where)
			return ""
		}
		if !slices.Contains([]string{"https", "ssh", "git", "file"}, u.Scheme) || u.Host == "" && u.Scheme != "file" ||
			strings.HasPrefix(u.Host, "-") {
			return bad("isn't a URL that may be fetched")
		}
		return s
	case strings.Contains(s, ":"):
		return bad("isn't a URL that may be fetched")
	case path.IsAbs(s):
		return s
	case path.Clean(s) == "." || path.Clean(s) == ".." || strings.HasPrefix(path.Clean(s), "../"):
		return bad("leaves the packages/ folder")
	}
	return s
}

func (d *document) relative(n *yaml.Node, where string) string {
	s := d.text(n, where, 1024)
	c := path.Clean(s)
	if path.IsAbs(s) || c == ".." || strings.HasPrefix(c, "../") || strings.ContainsAny(s, "\x00\n\\") {
		d.fail(n, "write the path inside the repository, such as packages/amf", "%q leaves the repository", where)
		return ""
	}
	if c == "." {
		return ""
	}
	return c
}

var branchName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./+@-]*$`)

// validBranch is stricter than git check-ref-format, on the safe side.
func validBranch(s string) bool {
	return branchName.MatchString(s) && !strings.Contains(s, "..") && !strings.Contains(s, "//") &&
		!strings.Contains(s, "/.") && !strings.Contains(s, "@{") && !strings.HasSuffix(s, "/") &&
		!strings.HasSuffix(s, ".") && !strings.HasSuffix(s, ".lock") && !strings.Contains(s, ".lock/")
}

// IsSettings says whether the path is one of a file that [SettingsFrom] reads.
func IsSettings(file string) bool {
	return file == RepositoriesFile || path.Dir(file) == VIMDir && path.Ext(file) == ".yaml"
}

// SettingsFrom reads the settings among the files called names; others are
// passed over, and none at all is no error. read returns a file's content. The
// error is an [*InvalidError], unless read failed.
func SettingsFrom(read func(name string) ([]byte, error), names []string) (*Settings, error) {
	s := &Settings{VIMs: map[string]*VIM{}}
	var problems []*Problem
	var defaultVIM string
	ids := map[string]string{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !IsSettings(name) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if name == RepositoriesFile {
			s.Repositories, err = ParseRepositories(name, data)
		} else {
			var v *VIM
			if v, err = ParseVIM(name, data); err == nil {
				s.VIMs[v.Name] = v
				if v.Default && defaultVIM != "" {
					problems = append(problems, &Problem{File: name, Message: fmt.Sprintf("VIM %q is the default already", defaultVIM), Remedy: "keep default: true in one file"})
				}
				if v.Default {
					defaultVIM = v.Name
				}
				id := v.ID
				if id == "" {
					id = v.Name
				}
				if other, ok := ids[id]; ok {
					problems = append(problems, &Problem{File: name, Message: fmt.Sprintf("VIM %q has the id %q too", other, clip(id)), Remedy: "give each VIM an id of its own"})
				}
				ids[id] = v.Name
			}
		}
		var invalid *InvalidError
		if errors.As(err, &invalid) {
			problems = append(problems, invalid.Problems...)
		} else if err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	return s, nil
}
