package packages

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/jibe-vnfm/jibe/internal/safeyaml"
)

// recordDir is where a package repository keeps records, below the folder of its packages.
const recordDir = ".jibe/packages"

// maxRecord is the size of a record's file, in bytes.
const maxRecord = 256 << 10

// Record is what is known of a package beside its files: a file <id>.yaml in the folder
// .jibe/packages of the package repository that is Jibe's to write. A package that nobody has
// said anything about has none.
type Record struct {
	// ID is the package's id in the API, and the name of the file.
	ID string `yaml:"-"`
	// VnfdID is that of the package's content, "" before it has any.
	VnfdID string `yaml:"vnfdId,omitempty"`
	// Disabled says that nothing new may be made of the package; what runs of it stays.
	Disabled bool `yaml:"disabled,omitempty"`
	// UserDefinedData is free content of JSON's types.
	UserDefinedData map[string]any `yaml:"userDefinedData,omitempty"`
	// Failure is why the last content was refused, nil where none was.
	Failure *Failure `yaml:"failure,omitempty"`
	// SignedBy is the subject of the certificate by which the content was found signed when it
	// was uploaded, "" where it wasn't.
	SignedBy string `yaml:"signedBy,omitempty"`
	// Sealed says that the signature stood beside the archive (SOL004 clause 5.1, option 2).
	Sealed bool `yaml:"sealed,omitempty"`
}

// Failure is why a package's content was refused, as HTTP has it.
type Failure struct {
	Status int    `yaml:"status"`
	Detail string `yaml:"detail"`
}

var recordID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$`)

// recordName is the file of the record, below the folder of packages.
func recordName(id string) string { return path.Join(recordDir, id+".yaml") }

// encode returns the record's file.
func (r *Record) encode() ([]byte, error) {
	if !recordID.MatchString(r.ID) {
		return nil, fmt.Errorf("%.100q can't be the id of a package", r.ID)
	}
	var b bytes.Buffer
	b.WriteString("# Kept by Jibe: what is known of this package beside its files.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(r), enc.Close()); err != nil {
		return nil, err
	}
	if b.Len() > maxRecord {
		return nil, fmt.Errorf("it would have more than %d bytes", maxRecord)
	}
	return b.Bytes(), nil
}

// parseRecord reads a record's file strictly.
func parseRecord(file string, data []byte) (*Record, error) {
	r := &Record{ID: strings.TrimSuffix(path.Base(file), ".yaml")}
	if !recordID.MatchString(r.ID) {
		return nil, errors.New("the file's name can't be the id of a package: use letters, digits, '-' and '_'")
	}
	switch n, faults := safeyaml.ParsePlain(data); {
	case len(faults) > 0:
		return nil, faults[0]
	case n == nil:
		return r, nil
	case n.Kind != yaml.MappingNode:
		return nil, errors.New("the file must be a mapping, such as \"disabled: true\"")
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(r); err != nil {
		return nil, err
	}
	return r, nil
}

// records reads the records at the commit below the folder dir. One that can't be read is in
// problems by its path, and counts for nothing.
func (o *objects) records(commit, dir string) (records []*Record, problems map[string]error, err error) {
	folder := path.Join(dir, recordDir)
	_, items, err := o.tree(commit + ":" + folder)
	if errors.Is(err, ErrUnknown) {
		return nil, nil, nil
	}
	problems = map[string]error{}
	if refused := (*refusedError)(nil); errors.As(err, &refused) {
		problems[folder] = err
		return nil, problems, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, i := range items {
		name := path.Join(folder, i.Name)
		if !i.IsFile() || path.Ext(i.Name) != ".yaml" {
			problems[name] = errors.New("isn't a record: it must be a file <id>.yaml")
			continue
		}
		data, _, err := o.blob(i.Hash)
		if errors.Is(err, errStore) {
			return nil, nil, err
		}
		var r *Record
		switch {
		case err == nil && (data == nil || len(data) > maxRecord):
			err = fmt.Errorf("has more than %d bytes", maxRecord)
		case err == nil:
			r, err = parseRecord(name, data)
		}
		if err != nil {
			problems[name] = err
			continue
		}
		records = append(records, r)
	}
	return records, problems, nil
}
