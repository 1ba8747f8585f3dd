package sol

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/jibe-vnfm/jibe/sol/rest"
)

// number is an integer, which some clients send as a string.
type number struct {
	n   int
	set bool
}

// UnmarshalJSON implements [json.Unmarshaler].
func (n *number) UnmarshalJSON(b []byte) error {
	s := string(b)
	if s == "null" {
		return nil
	}
	i, err := strconv.Atoi(strings.Trim(s, `"`))
	if err != nil {
		return rest.Problem(http.StatusBadRequest, "a number (numberOfSteps, scaleLevel, gracefulTerminationTimeout, gracefulStopTimeout) must be an integer")
	}
	n.n, n.set = i, true
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) { return []byte(strconv.Itoa(n.n)), nil }

// IsZero keeps an absent number absent.
func (n number) IsZero() bool { return !n.set }

// params returns a request as operationParams shows it: free of secrets.
func params(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	m := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if dec.Decode(&m) != nil {
		return nil
	}
	if b, err = json.Marshal(redact(m)); err != nil {
		return nil
	}
	return b
}
