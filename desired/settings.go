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

// settingName is what a VIM or a package repository may be called: it becomes a
// file name and a part of a git ref.
var settingName = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9_-]|\.[A-Za-z0-9_-]){0,62}$`)

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
		if r.Onboarding && slices.ContainsFunc(out, func(o Repository) bool { return o.Onboarding }) {
			d.fail(c, "keep the one to which uploaded packages are to be written", "a second repository is for onboarding: %q", r.Name)
		}
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
		field{"onboarding", func(_, v *yaml.Node) { r.Onboarding = d.boolean(v, at("onboarding")) }},
		field{"verify", func(_, v *yaml.Node) { r.Verify = d.verification(v, at("verify")) }},
	)
	d.emptyVerify(n, "")
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
	case r.Onboarding && r.Branch == "":
		d.fail(n, "give it a branch: uploads are commits there", "%q is for onboarding, and can't be written to", r.Name)
	case r.Onboarding && r.Verify.Signers != "":
		d.fail(n, "keep uploads apart from what others sign; verify: with csar: holds uploads to their own signatures", "%q is for onboarding, and nobody signs the commits of uploads", r.Name)
	case r.Verify.Tags && r.Tags == "":
		d.fail(n, "add tags:, or remove tags: true of verify", "%q demands signed tags, and has no tags", r.Name)
	case strings.HasPrefix(strings.ToLower(r.URL), "http://") && r.Unprotected() != "":
		d.fail(n, "see the guide of signatures", "%q: %s", r.Name, r.Unprotected())
	}
	return r
}

// scpURL is git's short form for ssh, "git@host:path".
var scpURL = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:\s][^\s]*$`)

// gitURL reads what git may fetch: https, ssh, http, git and file URLs, git@host:path,
// absolute paths, and paths below the data directory's packages/ folder.
func (d *document) gitURL(n *yaml.Node, where string) string {
	before := len(d.problems)
	s := d.text(n, where, 2048)
	if len(d.problems) > before {
		return ""
	}
	bad := func(why string) string {
		d.fail(n, "use https://, ssh:// or file:// URLs, git@host:path, or the path of a bare repository below packages/", "%q %s", where, why)
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
		if _, has := u.User.Password(); has || u.User != nil && (u.Scheme == "https" || u.Scheme == "http") {
			d.fail(n, "remove them, and set up a credential helper or an ssh key for the process", "%q holds credentials", where)
			return ""
		}
		if !slices.Contains([]string{"https", "ssh", "http", "git", "file"}, u.Scheme) || u.Host == "" && u.Scheme != "file" ||
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
	switch path.Dir(file) {
	case VIMDir:
		return path.Ext(file) == ".yaml"
	case ProjectDir:
		return IsProjectFile(path.Base(file))
	}
	return file == RepositoriesFile || file == PeersFile || file == GrantingFile
}

// SettingsFrom reads the settings among the files called names; others are
// passed over, and none at all is no error. read returns a file's content. The
// error is an [*InvalidError], unless read failed.
func SettingsFrom(read func(name string) ([]byte, error), names []string) (*Settings, error) {
	s := &Settings{VIMs: map[string]*VIM{}}
	var problems []*Problem
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !IsSettings(name) {
			continue
		}
		data, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		switch name {
		case RepositoriesFile:
			s.Repositories, err = ParseRepositories(name, data)
		case PeersFile:
			s.Peers, err = ParsePeers(name, data)
		case GrantingFile:
			s.Granting, err = ParseGranting(name, data)
		default:
			if path.Dir(name) == ProjectDir {
				var p *Project
				if p, err = ParseProject(name, data); err == nil {
					problems = append(problems, s.AddProject(p)...)
				}
				break
			}
			var v *VIM
			if v, err = ParseVIM(name, data); err == nil {
				problems = append(problems, s.Clash(v)...)
				s.VIMs[v.Name] = v
			}
		}
		var invalid *InvalidError
		if errors.As(err, &invalid) {
			problems = append(problems, invalid.Problems...)
		} else if err != nil {
			return nil, err
		}
	}
	if len(problems) == 0 { // a file that can't be read may be what is missing
		problems = s.Missing()
	}
	if len(problems) > 0 {
		return nil, &InvalidError{Problems: problems}
	}
	return s, nil
}
