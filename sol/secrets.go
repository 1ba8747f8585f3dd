package sol

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// sealer replaces credentials by references to their ciphertext.
type sealer struct {
	keep func(old, plaintext string) (string, error)
}

// seal returns in with every credential in clear encrypted. One that before
// holds already keeps its ciphertext byte for byte. A reference that isn't
// before's is refused: a client could make the server send its own files, or
// another VIM's credentials, to an endpoint of the client's choice.
func (s sealer) seal(in, before *desired.Instance) (*desired.Instance, error) {
	if before == nil {
		before = &desired.Instance{}
	}
	out := *in
	if in.VIMConnections != nil {
		out.VIMConnections = make(map[string]desired.VIMConnection, len(in.VIMConnections))
	}
	for _, name := range slices.Sorted(maps.Keys(in.VIMConnections)) {
		c, old := in.VIMConnections[name], before.VIMConnections[name]
		where := "vimConnectionInfo." + name
		var err error
		if c.InterfaceInfo, err = s.flat(where+".interfaceInfo", c.InterfaceInfo, old.InterfaceInfo); err != nil {
			return nil, err
		}
		if c.AccessInfo, err = s.flat(where+".accessInfo", c.AccessInfo, old.AccessInfo); err != nil {
			return nil, err
		}
		if c.Extra, err = s.object(where+".extra", c.Extra, old.Extra, shown); err != nil {
			return nil, err
		}
		out.VIMConnections[name] = c
	}
	for _, f := range []struct {
		where   string
		to      *map[string]any
		is, was map[string]any
		use     use
	}{
		{"additionalParams", &out.Params, in.Params, before.Params, handedOn},
		{"additionalParams", &out.Update.Coordinate.Params, in.Update.Coordinate.Params, before.Update.Coordinate.Params, forScripts},
		{"metadata", &out.Metadata, in.Metadata, before.Metadata, shown},
		{"extensions", &out.Extensions, in.Extensions, before.Extensions, shown},
		{"vnfConfigurableProperties", &out.ConfigurableProperties, in.ConfigurableProperties, before.ConfigurableProperties, shown},
	} {
		sealed, err := s.object(f.where, f.is, f.was, f.use)
		if err != nil {
			return nil, err
		}
		*f.to = sealed
	}
	return &out, nil
}

// flat seals accessInfo or interfaceInfo.
func (s sealer) flat(where string, is, was map[string]string) (map[string]string, error) {
	if is == nil {
		return nil, nil
	}
	out := make(map[string]string, len(is))
	for _, k := range slices.Sorted(maps.Keys(is)) {
		v := is[k]
		secret := desired.IsSecretKey(k)
		switch {
		case secret && v == "":
			continue
		case secret || desired.IsRef(v):
			sealed, err := s.one(where+"."+k, v, was[k])
			if err != nil {
				return nil, err
			}
			v = sealed
		}
		out[k] = v
	}
	return out, nil
}

// use is what becomes of free content.
type use int

const (
	// shown content is only kept and shown.
	shown use = iota
	// handedOn is content that programs of the package get with each reference
	// resolved: none may come from a client.
	handedOn
	// forScripts is content that is there for nothing else, and tells how to reach
	// machines: whatever may be a credential by its name is one.
	forScripts
)

// secret says whether a value of that name is a credential.
func (u use) secret(name string) bool {
	if u == forScripts {
		return desired.IsSecretKey(name)
	}
	return credential(name)
}

func (s sealer) object(where string, is, was map[string]any, u use) (map[string]any, error) {
	if is == nil {
		return nil, nil
	}
	v, err := s.value(where, is, was, u, false)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// value seals what stands in free content below the name of a credential.
func (s sealer) value(where string, is, was any, u use, secret bool) (any, error) {
	switch v := is.(type) {
	case map[string]any:
		old, _ := was.(map[string]any)
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if v[k] == "" && u == forScripts && u.secret(k) {
				continue
			}
			e, err := s.value(where+"."+k, v[k], old[k], u, secret || u.secret(k))
			if err != nil {
				return nil, err
			}
			out[k] = e
		}
		return out, nil
	case []any:
		old, _ := was.([]any)
		out := make([]any, len(v))
		for i, e := range v {
			var before any
			if i < len(old) {
				before = old[i]
			}
			sealed, err := s.value(fmt.Sprintf("%s[%d]", where, i), e, before, u, secret)
			if err != nil {
				return nil, err
			}
			out[i] = sealed
		}
		return out, nil
	case string:
		ref := strings.HasPrefix(v, desired.RefAge) || u != shown && desired.IsRef(v)
		if v == "" || !secret && !ref {
			return v, nil
		}
		old, _ := was.(string)
		return s.one(where, v, old)
	}
	return is, nil
}

func (s sealer) one(where, v, old string) (string, error) {
	if desired.IsRef(v) {
		if v == old {
			return v, nil
		}
		return "", problem(http.StatusBadRequest, "%s is a reference: through the API credentials are given in clear (they are encrypted before they are stored)", where)
	}
	return s.keep(old, v)
}

// credential says whether a value of that name in free content (parameters,
// metadata) is a credential. It is narrower than [desired.IsSecretKey], as
// "key1" is what many clients call a key of metadata.
func credential(name string) bool {
	n := strings.ToLower(name)
	if !desired.IsSecretKey(name) {
		return false
	}
	return slices.ContainsFunc([]string{"passw", "passphrase", "secret", "token", "credential", "private_key", "privatekey", "private-key", "api_key", "apikey", "client_key"},
		func(part string) bool { return strings.Contains(n, part) })
}

// redact returns v, JSON, without what is or may be a secret.
func redact(v any) any { return redactBy(v, credential) }

func redactBy(v any, secret func(string) bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if s, ok := e.(string); secret(k) || ok && desired.IsRef(s) {
				continue
			}
			inner := secret
			switch k {
			case "accessInfo", "interfaceInfo", vduParams, externalLBParam:
				inner = desired.IsSecretKey
			}
			out[k] = redactBy(e, inner)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			if s, ok := e.(string); ok && desired.IsRef(s) {
				continue
			}
			out = append(out, redactBy(e, secret))
		}
		return out
	}
	return v
}
