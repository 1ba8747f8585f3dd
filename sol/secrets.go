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
		if c.Extra, err = s.object(where+".extra", c.Extra, old.Extra); err != nil {
			return nil, err
		}
		out.VIMConnections[name] = c
	}
	for _, f := range []struct {
		where   string
		to      *map[string]any
		is, was map[string]any
	}{
		{"additionalParams", &out.Params, in.Params, before.Params},
		{"additionalParams", &out.Update.Coordinate.Params, in.Update.Coordinate.Params, before.Update.Coordinate.Params},
		{"metadata", &out.Metadata, in.Metadata, before.Metadata},
		{"extensions", &out.Extensions, in.Extensions, before.Extensions},
		{"vnfConfigurableProperties", &out.ConfigurableProperties, in.ConfigurableProperties, before.ConfigurableProperties},
	} {
		sealed, err := s.object(f.where, f.is, f.was)
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

func (s sealer) object(where string, is, was map[string]any) (map[string]any, error) {
	if is == nil {
		return nil, nil
	}
	v, err := s.value(where, is, was, false)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// value seals what stands in free content below the name of a credential.
func (s sealer) value(where string, is, was any, secret bool) (any, error) {
	switch v := is.(type) {
	case map[string]any:
		old, _ := was.(map[string]any)
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			e, err := s.value(where+"."+k, v[k], old[k], secret || credential(k))
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
			sealed, err := s.value(fmt.Sprintf("%s[%d]", where, i), e, before, secret)
			if err != nil {
				return nil, err
			}
			out[i] = sealed
		}
		return out, nil
	case string:
		if v == "" || !secret && !strings.HasPrefix(v, desired.RefAge) {
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
			if k == "accessInfo" || k == "interfaceInfo" {
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
