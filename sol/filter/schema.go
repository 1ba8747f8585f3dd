package filter

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Schema says which attributes a type of resource can have, so that a filter or a selector
// that names another is refused: it is a typing error, and would be obeyed as "nothing".
type Schema struct {
	// children are the attributes of a structure, nil for others.
	children map[string]*Schema
	// each are the entries of a map, whose keys are free; nil for others.
	each *Schema
	// free is content of any form.
	free bool
}

// More are attributes of types that these don't have in Go and that are no errors all the
// same: the standard knows them, and Jibe has nothing to say there.
type More map[reflect.Type][]string

// SchemaOf returns the attributes of the JSON of v, by its type.
func SchemaOf(v any, more More) *Schema { return more.schema(reflect.TypeOf(v)) }

func (m More) schema(t reflect.Type) *Schema {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 {
		t = t.Elem() // filters reach through lists
	}
	marshals := reflect.TypeFor[json.Marshaler]()
	texts := reflect.TypeFor[encoding.TextMarshaler]()
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(texts):
		return &Schema{}
	case t.Kind() == reflect.Interface, pointer.Implements(marshals):
		return &Schema{free: true}
	case t.Kind() == reflect.Map:
		return &Schema{each: m.schema(t.Elem())}
	case t.Kind() != reflect.Struct:
		return &Schema{}
	}
	s := &Schema{children: map[string]*Schema{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			for k, child := range m.schema(f.Type).children {
				s.children[k] = child
			}
		case name == "":
			s.children[f.Name] = m.schema(f.Type)
		default:
			s.children[name] = m.schema(f.Type)
		}
	}
	for _, name := range m[t] {
		s.children[name] = &Schema{free: true}
	}
	return s
}

// Check returns [ErrStructure], wrapped with the attribute, for a path that leads nowhere.
func (s *Schema) Check(path []string) error {
	_, err := s.at(path)
	return err
}

// at finds what is at the path.
func (s *Schema) at(path []string) (*Schema, error) {
	for i, name := range path {
		shown := strings.Join(path[:i+1], "/")
		switch {
		case s.free:
			return s, nil
		case s.each != nil && name == keyOf:
			return &Schema{}, nil
		case s.each != nil:
			s = s.each
		case s.children == nil:
			return nil, fmt.Errorf("%w: %.128q lies below a simple value", ErrStructure, shown)
		case s.children[name] == nil:
			return nil, fmt.Errorf("%w: there is no attribute %.128q", ErrStructure, shown)
		default:
			s = s.children[name]
		}
	}
	return s, nil
}

// Fits says whether the filter can be decided on resources of the schema: the error is
// [ErrStructure] for an attribute that there can't be, or that is a structure.
func (f Filter) Fits(s *Schema) error {
	for _, e := range f.exprs {
		at, err := s.at(e.Path)
		if err != nil {
			return err
		}
		if at.children != nil || at.each != nil {
			return fmt.Errorf("%w: %.128q is a structure and can't be compared", ErrStructure, strings.Join(e.Path, "/"))
		}
	}
	return nil
}

// Fits says whether resources of the schema can have what the selector names: the error is
// [ErrStructure] for an attribute that there can't be.
func (s Selector) Fits(schema *Schema) error {
	for _, list := range [][][]string{s.fields, s.exclude} {
		for _, path := range list {
			if err := schema.Check(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// Top is the schema of which only the attributes at the top are known, and all may be below.
func (s *Schema) Top() *Schema {
	top := &Schema{children: map[string]*Schema{}}
	for name := range s.children {
		top.children[name] = &Schema{free: true}
	}
	return top
}
