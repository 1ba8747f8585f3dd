package sol

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// maxBody is the most that a request's body may hold, in bytes.
const maxBody = 1 << 20

// read decodes the request's body into v and refuses attributes that v doesn't have.
func read(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		var big *http.MaxBytesError
		if errors.As(err, &big) {
			return problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
		}
		return problem(http.StatusBadRequest, "the body could not be read: %v", err)
	}
	return decode(data, v)
}

// decode reads strict JSON into v: one object, no unknown attributes, no trailing data.
func decode(data []byte, v any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return problem(http.StatusBadRequest, "the body is empty; it must be a JSON object")
	}
	if t := bytes.TrimSpace(data); t[0] != '{' && json.Valid(data) {
		return problem(http.StatusBadRequest, "the body must be a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return badBody(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return problem(http.StatusBadRequest, "the body goes on behind its JSON object, at %s", position(data, dec.InputOffset()))
	}
	return nil
}

// badBody says what is wrong with a body and where. It never quotes a value, which may be a
// secret.
func badBody(data []byte, err error) error {
	var syntax *json.SyntaxError
	var typ *json.UnmarshalTypeError
	var invalid *InvalidError
	switch {
	case errors.As(err, &invalid):
		return invalid
	case errors.As(err, &syntax):
		return problem(http.StatusBadRequest, "the body is not JSON: %v, at %s", syntax, position(data, syntax.Offset))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem(http.StatusBadRequest, "the body is not JSON: it ends too early, at %s", position(data, int64(len(data))))
	case errors.As(err, &typ):
		return problem(http.StatusBadRequest, "attribute %q has the wrong type: a JSON %s can't be used there, at %s", typ.Field, kind(typ.Value), position(data, typ.Offset))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return problem(http.StatusBadRequest, "unknown attribute %s in the body", name)
	}
	return problem(http.StatusBadRequest, "the body can't be used: %v", err)
}

// kind cuts the value off "number 1.5".
func kind(s string) string {
	k, _, _ := strings.Cut(s, " ")
	return k
}

func position(data []byte, offset int64) string {
	head := data[:min(max(offset, 0), int64(len(data)))]
	line := 1 + bytes.Count(head, []byte("\n"))
	return fmt.Sprintf("line %d, column %d", line, len(head)-bytes.LastIndexByte(head, '\n')-1)
}

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
		return problem(http.StatusBadRequest, "a number (numberOfSteps, gracefulTerminationTimeout) must be an integer")
	}
	n.n, n.set = i, true
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (n number) MarshalJSON() ([]byte, error) { return []byte(strconv.Itoa(n.n)), nil }

// IsZero keeps an absent number absent.
func (n number) IsZero() bool { return !n.set }

// plain turns json.Number into int64 or float64, as desired has it.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	}
	return v
}

// object is [plain] for a map; nil stays nil.
func object(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	return plain(m).(map[string]any)
}

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

// exactly reads free content of a request into v and refuses attributes that v doesn't have.
func exactly(attr string, is, v any) error {
	b, err := json.Marshal(map[string]any{attr: is})
	if err != nil {
		return fmt.Errorf("%s: %w", attr, err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(b, &body); err != nil {
		return fmt.Errorf("%s: %w", attr, err)
	}
	wrapped := struct {
		To any `json:"value"`
	}{v}
	if err := decode(fmt.Appendf(nil, `{"value": %s}`, body[attr]), &wrapped); err != nil {
		why, _, _ := strings.Cut(err.Error(), ", at ") // a position in no text that the client sent
		return problem(http.StatusBadRequest, "%s can't be used: %s", attr, why)
	}
	return nil
}

// generic returns v as decoded JSON.
func generic(v any) (map[string]any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	m := map[string]any{}
	return m, dec.Decode(&m)
}
