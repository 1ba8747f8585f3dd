package hooks

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Allowed are the package repositories whose hooks the host lets run (jibe serve
// --allow-hooks). It is the host's half of the permission: a repository must say hooks: true,
// too. The zero value allows none. It implements pflag.Value.
type Allowed struct {
	all     bool
	entries []allowed
}

// AllHooks is the value of the flag that allows the hooks of all repositories.
const AllHooks = "*"

// allowed is one entry: a name, and what its repository must be like, where the entry says so.
type allowed struct {
	name, url, refs string
	bound           bool // to URL and refs
}

// atHead are the refs of a repository that names neither branch nor tags; asTags stands before
// a pattern of tags.
const (
	atHead = "HEAD"
	asTags = "tags:"
)

// Set implements pflag.Value: text is [AllHooks], or entries with commas between them, each NAME
// or NAME=URL#REFS. REFS is a branch, "tags:" and a pattern, or HEAD. A bad entry refuses all of
// text.
func (a *Allowed) Set(text string) error {
	next := Allowed{all: a.all, entries: slices.Clone(a.entries)}
	for entry := range strings.SplitSeq(text, ",") {
		entry = strings.TrimSpace(entry)
		if entry == AllHooks {
			next.all = true
			continue
		}
		name, at, bound := strings.Cut(entry, "=")
		if name == "" || strings.ContainsAny(name, "/#: \t") {
			return fmt.Errorf("%q: want the name of a repository in %s, or NAME=URL#REFS", entry, desired.RepositoriesFile)
		}
		x := allowed{name: name, bound: bound}
		if bound {
			hash := strings.LastIndexByte(at, '#')
			if hash < 1 || hash == len(at)-1 || at[hash+1:] == asTags {
				return fmt.Errorf("%q: want NAME=URL#REFS, where REFS is the branch, tags:PATTERN, or HEAD where %s names neither", entry, desired.RepositoriesFile)
			}
			x.url, x.refs = withoutUser(at[:hash]), at[hash+1:]
		}
		next.entries = append(next.entries, x)
	}
	*a = next
	return nil
}

// String implements pflag.Value.
func (a *Allowed) String() string {
	var out []string
	if a.all {
		out = append(out, AllHooks)
	}
	for _, x := range a.entries {
		text := x.name
		if x.bound {
			text += "=" + x.url + "#" + x.refs
		}
		out = append(out, text)
	}
	return strings.Join(out, ",")
}

// Type implements pflag.Value: it is what the help calls the value.
func (a *Allowed) Type() string { return "NAME[=URL#REFS],…" }

// CheckForge refuses what a change that a forge merges could turn into more than the host's
// administrator meant: there, who merges decides which URL a name stands for.
func (a *Allowed) CheckForge() error {
	const forge = "the desired repository is on a forge (--remote), where a merged change could point a name at another repository: "
	if a.all {
		return errors.New(forge + "name each repository whose hooks may run, as --allow-hooks=NAME=URL#BRANCH")
	}
	for _, x := range a.entries {
		if !x.bound {
			return fmt.Errorf(forge+"write --allow-hooks=%s=URL#BRANCH (or URL#tags:PATTERN), as %s has it", x.name, desired.RepositoriesFile)
		}
	}
	return nil
}

// Barred says what is to be written on the host so that the repository's hooks may run, "" where
// the host lets them run.
func (a *Allowed) Barred(r desired.Repository) string {
	at, refs := withoutUser(r.URL), refsOf(r)
	bound := false
	for _, x := range a.entries {
		if x.name != r.Name {
			continue
		}
		if !x.bound || x.url == at && x.refs == refs {
			return ""
		}
		bound = true
	}
	switch {
	case a.all:
		return ""
	case bound:
		return fmt.Sprintf("start jibe serve with --allow-hooks=%s=%s#%s, as repository %s isn't the one any more that the host allows", r.Name, at, refs, r.Name)
	}
	return fmt.Sprintf("start jibe serve with --allow-hooks=%s (where the desired repository is on a forge, --allow-hooks=%[1]s=%s#%s)", r.Name, at, refs)
}

// refsOf are the refs of the repository that packages are taken from.
func refsOf(r desired.Repository) string {
	switch {
	case r.Branch != "":
		return r.Branch
	case r.Tags != "":
		return asTags + r.Tags
	}
	return atHead
}

// withoutUser is the URL without name and password of a user: whom one logs in as says nothing
// of what is there, and a password isn't for flags or messages.
func withoutUser(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	u.User = nil
	return u.String()
}
