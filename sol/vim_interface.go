package sol

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
)

// InterfaceInfo is the attribute of that name of VimConnectionInfo. Its values are texts, but
// clients send and read some as what they are: whether certificates are checked is a boolean.
type InterfaceInfo map[string]string

// UnmarshalJSON takes texts, booleans and numbers as texts; null is "".
func (i *InterfaceInfo) UnmarshalJSON(data []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	if raw == nil {
		*i = nil
		return nil
	}
	out := make(InterfaceInfo, len(raw))
	for key, value := range raw {
		var text string
		switch {
		case json.Unmarshal(value, &text) == nil:
		case strings.ContainsAny(string(value[:1]), "{["):
			return fmt.Errorf("interfaceInfo.%s must be a text, a boolean or a number", quote(key))
		default:
			text = string(value)
		}
		out[key] = text
	}
	*i = out
	return nil
}

// MarshalJSON shows as a boolean what is one.
func (i InterfaceInfo) MarshalJSON() ([]byte, error) {
	out := make(map[string]any, len(i))
	for key, value := range i {
		out[key] = value
	}
	if skip, err := (desired.VIMConnection{InterfaceInfo: i}).SkipsVerification(); err == nil && i[desired.SkipVerification] != "" {
		out[desired.SkipVerification] = skip
	}
	return json.Marshal(out)
}
