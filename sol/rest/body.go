package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// maxBody is the most that a request's body may hold, in bytes.
const maxBody = 1 << 20

// maxDepth is how many objects and lists of a request's body may be in each other. What
// clients send goes into files, where each level is indented.
const maxDepth = 100

// Read decodes the request's body into v and refuses attributes that v doesn't have.
func Read(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return Problem(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", maxBody)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Problem(http.StatusRequestTimeout, "the body came too slowly")
	case err != nil:
		return Problem(http.StatusBadRequest, "the body could not be read: %v", err)
	}
	form := formOf(r.Context())
	if form == nil {
		return Decode(data, v)
	}
	var given map[string]any
	if err := Decode(data, &given); err != nil {
		return err
	}
	if err := form.Request(given); err != nil {
		var refused *InvalidError
		if errors.As(err, &refused) {
			return err
		}
		return Problem(http.StatusBadRequest, "%v", err)
	}
	if data, err = json.Marshal(given); err != nil {
		return fmt.Errorf("translate the body: %w", err)
	}
	return unplaced(Decode(data, v))
}

// unplaced is the error without a position, for a text that the client didn't send.
func unplaced(err error) error {
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	why, _, _ := strings.Cut(invalid.Detail, ", at ")
	return &InvalidError{Status: invalid.Status, Detail: why}
}

// Decode reads strict JSON into v: one object, no unknown attributes, no trailing data.
func Decode(data []byte, v any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return Problem(http.StatusBadRequest, "the body is empty; it must be a JSON object")
	}
	if t := bytes.TrimSpace(data); t[0] != '{' && json.Valid(data) {
		return Problem(http.StatusBadRequest, "the body must be a JSON object")
	}
	if err := checkNames(data); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return badBody(data, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Problem(http.StatusBadRequest, "the body goes on behind its JSON object, at %s", position(data, dec.InputOffset()))
	}
	return nil
}

// checkNames refuses structures that are nested too deeply, and names that stand twice in
// one object: of such, one reader takes the first and another the last.
func checkNames(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	// open are the objects and lists around what is read; the names of lists are nil.
	type level struct {
		names map[string]bool
		value bool // a value comes next, and no name
	}
	var open []level
	for {
		token, err := dec.Token()
		if err != nil {
			return nil // it ends too early, or is no JSON: Decode says where
		}
		in := len(open) - 1
		if name, ok := token.(string); ok && in >= 0 && open[in].names != nil && !open[in].value {
			if open[in].names[name] {
				return Problem(http.StatusBadRequest, "attribute %.64q stands twice in one object, at %s", name, position(data, dec.InputOffset()))
			}
			open[in].names[name], open[in].value = true, true
			continue
		}
		if in >= 0 {
			open[in].value = false
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{names: map[string]bool{}})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:in]
			if in == 0 {
				return nil // what follows is Decode's to refuse
			}
		}
		if len(open) > maxDepth {
			return Problem(http.StatusBadRequest, "the body is nested more than %d deep, at %s", maxDepth, position(data, dec.InputOffset()))
		}
	}
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
		return Problem(http.StatusBadRequest, "the body is not JSON: %v, at %s", syntax, position(data, syntax.Offset))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return Problem(http.StatusBadRequest, "the body is not JSON: it ends too early, at %s", position(data, int64(len(data))))
	case errors.As(err, &typ):
		return Problem(http.StatusBadRequest, "attribute %q has the wrong type: a JSON %s can't be used there, at %s", typ.Field, kind(typ.Value), position(data, typ.Offset))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return Problem(http.StatusBadRequest, "unknown attribute %s in the body", name)
	}
	return Problem(http.StatusBadRequest, "the body can't be used: %v", err)
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

// Plain turns json.Number into int64 or float64, as desired has it.
func Plain(v any) any {
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
			v[k] = Plain(e)
		}
	case []any:
		for i, e := range v {
			v[i] = Plain(e)
		}
	}
	return v
}

// Object is [Plain] for a map; nil stays nil.
func Object(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	return Plain(m).(map[string]any)
}

// Exactly reads attr, free content of a request, into v and refuses attributes that v doesn't have.
func Exactly(attr string, is, v any) error {
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
	if err := unplaced(Decode(fmt.Appendf(nil, `{"value": %s}`, body[attr]), &wrapped)); err != nil {
		return Problem(http.StatusBadRequest, "%s can't be used: %v", attr, err)
	}
	return nil
}

// Generic returns v as decoded JSON.
func Generic(v any) (map[string]any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	m := map[string]any{}
	return m, dec.Decode(&m)
}
