package secret

import (
	"fmt"
	"path"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// Places say what the encrypted values of a desired repository are for, by where they stand.
type Places struct {
	// Adopt says that a value is for where it stands, whatever it says itself.
	Adopt bool

	settings *desired.Settings
	scopes   map[string]Scope  // by reference
	files    map[string]string // where it stands first
}

// NewPlaces makes places of a repository with these settings.
func NewPlaces(settings *desired.Settings) *Places {
	return &Places{settings: settings, scopes: map[string]Scope{}, files: map[string]string{}}
}

// Add notes what the values of a file are for, as far as they are ever opened there: what stands in metadata or in a
// comment is for nothing. A value that would have to be for two places is an error: one of them has it from the other, and
// only a person can say which.
func (p *Places) Add(file string, text []byte) error {
	found := reference.FindAll(text, -1)
	if len(found) == 0 {
		return nil
	}
	project := p.settings.ProjectNameOf(path.Dir(file))
	var in *desired.Instance
	base := Scope{}
	switch {
	case strings.HasPrefix(file, "instances/") && path.Base(file) == desired.InstanceFile:
		var err error
		if in, err = desired.ParseInstance(file, text); err != nil {
			return err
		}
	case strings.HasPrefix(file, "instances/") && path.Base(file) == desired.GrantedFile:
		g, err := desired.ParseGranted(file, text)
		if err != nil {
			return err
		}
		in = &desired.Instance{VIMConnections: g.VIMConnections}
	case path.Dir(file) == desired.VIMDir:
		base = ForVIMs()
	case file == desired.PeersFile:
		base = ForSettings()
	}
	if in != nil {
		for _, r := range in.References() {
			if !r.IsEncrypted() {
				continue
			}
			if err := p.note(file, r.Ref, ScopeAt(project, r)); err != nil {
				return err
			}
		}
	}
	if base.IsZero() {
		return nil
	}
	for _, ref := range found {
		if err := p.note(file, string(ref), base); err != nil {
			return err
		}
	}
	return nil
}

// note notes one value.
func (p *Places) note(file, ref string, scope Scope) error {
	was, known := p.scopes[ref]
	if known && was != scope {
		return fmt.Errorf("the same encrypted value stands in %s, for %s, and in %s, for %s: encrypt the secret itself where it belongs twice, or remove the copy",
			p.files[ref], was, file, scope)
	}
	if !known {
		p.scopes[ref], p.files[ref] = scope, file
	}
	return nil
}

// Of is what the value is for, zero where that isn't known.
func (p *Places) Of(ref string) Scope {
	if p == nil {
		return Scope{}
	}
	return p.scopes[ref]
}

// Counts are the encrypted values of some files, by how they stand there.
type Counts struct {
	// Unscoped are those of earlier versions, which don't say what they are for.
	Unscoped int
	// Misplaced are for another place than where they stand.
	Misplaced int
	// Unreadable were not encrypted for the installation's key.
	Unreadable int
}

// Count looks at the values of a file that was added.
func (p *Places) Count(k *Keeper, text []byte) (c Counts) {
	for _, ref := range reference.FindAll(text, -1) {
		switch is, err := k.ScopeOf(string(ref)); {
		case err != nil:
			c.Unreadable++
		case p.Of(string(ref)).IsZero():
		case is.IsZero():
			c.Unscoped++
		case is != p.Of(string(ref)):
			c.Misplaced++
		}
	}
	return c
}
