package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// file is the token file.
type file struct {
	Tokens       []fileToken       `json:"tokens"`
	Certificates []fileCertificate `json:"certificates"`
}

type fileToken struct {
	fileIdentity
	// Token is the token, or "sha256:" and its digest in hex.
	Token given `json:"token"`
}

// fileIdentity is what a file says of a caller, whichever way it authenticates.
type fileIdentity struct {
	Name given `json:"name"`
	// Role is a role in all projects; Roles are in its place where projects are named.
	Role      given      `json:"role"`
	Roles     []fileRole `json:"roles"`
	Interface given      `json:"interface"`
	EM        given      `json:"em"`
}

type fileRole struct {
	Role     given    `json:"role"`
	Projects projects `json:"projects"`
}

// given is a text that isn't empty where its key stands: what was left out by mistake must
// not mean "unconfined".
type given string

// UnmarshalJSON implements [json.Unmarshaler].
func (g *given) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text == "" {
		return errors.New("a value is empty")
	}
	*g = given(text)
	return nil
}

// projects are the names of projects: never null or an empty list, which could be read as
// all of them.
type projects []string

// UnmarshalJSON implements [json.Unmarshaler].
func (p *projects) UnmarshalJSON(data []byte) error {
	var names []string
	if err := json.Unmarshal(data, &names); err != nil {
		return err
	}
	if len(names) == 0 || slices.Contains(names, "") {
		return errors.New("projects is empty")
	}
	*p = names
	return nil
}

// identity checks what the file says.
func (f fileIdentity) identity(issuer string) (Identity, error) {
	id := Identity{Name: string(f.Name), Issuer: issuer, Interface: string(f.Interface), EM: string(f.EM)}
	if !goodName(id.Name) {
		return id, errors.New("name is missing, or has a control character, an invisible one, < or >")
	}
	refuse := func(err error) (Identity, error) { return id, fmt.Errorf("(%s): %w", id.Name, err) }
	roles := f.Roles
	switch {
	case f.Role != "" && len(roles) > 0:
		return refuse(errors.New("role and roles can't both be given"))
	case f.Role != "":
		roles = []fileRole{{Role: f.Role}}
	case len(roles) == 0:
		return refuse(errors.New("neither role nor roles is given"))
	}
	for _, r := range roles {
		role, err := ParseRole(string(r.Role))
		if err != nil {
			return refuse(err)
		}
		id.Permissions = append(id.Permissions, Permission{Role: role, Projects: r.Projects})
	}
	if !slices.Contains([]string{"", SOL002, SOL003}, id.Interface) {
		return refuse(fmt.Errorf("interface %q is neither %s nor %s", id.Interface, SOL002, SOL003))
	}
	if id.EM != "" && id.Interface != SOL002 {
		return refuse(fmt.Errorf("em confines a caller by %s alone: give interface: %s, too", SOL002, SOL002))
	}
	return id, nil
}
