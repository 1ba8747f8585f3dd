package desired

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The schemes of a reference to a secret.
const (
	// RefAge is followed by base64url (no padding) of an age file.
	RefAge = "age:"
	// RefEnv is followed by the name of an environment variable of the process.
	RefEnv = "env:"
	// RefFile is followed by an absolute path on the process's machine.
	RefFile = "file:"
)

var (
	refAge  = regexp.MustCompile(`^age:[A-Za-z0-9_-]+$`)
	refEnv  = regexp.MustCompile(`^env:[A-Za-z_][A-Za-z0-9_]*$`)
	refFile = regexp.MustCompile(`^file:/[^\x00-\x1f]+$`)
)

// IsRef says whether s is a well-formed reference to a secret, not the secret
// itself.
func IsRef(s string) bool {
	return refAge.MatchString(s) || refEnv.MatchString(s) || refFile.MatchString(s)
}

// Reference is a reference to a secret, and where in the file it stands.
type Reference struct {
	// Field is its path, "params.lb.password" or "params.list[0]".
	Field string
	Ref   string
	// Connection is the key in vimConnectionInfo of the connection that it stands in, "" elsewhere, and Endpoint that
	// connection's.
	Connection, Endpoint string
}

// IsEncrypted reports whether the value itself stands in git, unreadably. Others name what the host has.
func (r Reference) IsEncrypted() bool { return strings.HasPrefix(r.Ref, RefAge) }

// References returns the references to secrets that somebody may resolve, for a VIM or for a
// hook: those in the instance's own connections, in its params, and in the params of its
// coordination hooks. They are in the order of their fields.
func (in *Instance) References() []Reference {
	var out []Reference
	for _, name := range slices.Sorted(maps.Keys(in.VIMConnections)) {
		c := in.VIMConnections[name]
		at, before := "vimConnectionInfo."+name, len(out)
		out = refsIn(out, at+".accessInfo", c.AccessInfo)
		out = refsIn(out, at+".interfaceInfo", c.InterfaceInfo)
		for i := range out[before:] {
			out[before+i].Connection, out[before+i].Endpoint = name, c.InterfaceInfo["endpoint"]
		}
	}
	out = refsIn(out, "params", in.Params)
	return refsIn(out, "update.coordinate.params", in.Update.Coordinate.Params)
}

func refsIn(out []Reference, at string, v any) []Reference {
	switch v := v.(type) {
	case string:
		if IsRef(v) {
			out = append(out, Reference{Field: at, Ref: v})
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = refsIn(out, at+"."+key, v[key])
		}
	case map[string]string:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = refsIn(out, at+"."+key, v[key])
		}
	case []any:
		for i, e := range v {
			out = refsIn(out, fmt.Sprintf("%s[%d]", at, i), e)
		}
	}
	return out
}
