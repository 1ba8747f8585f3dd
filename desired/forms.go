package desired

import (
	"bytes"
	"path"
	"unsafe"

	"github.com/jibe-vnfm/jibe/internal/lru"
)

// Forms parses instances as [ParseInstance] does, and remembers what it has read. In a network
// of tens of thousands most files differ in id and name alone: what they say otherwise, their
// form, is read once, and the instances share it. It is safe for concurrent use.
type Forms struct {
	known *lru.Cache[*Instance] // by form: the first of it
}

// NewForms remembers forms of up to most bytes.
func NewForms(most int) *Forms {
	return &Forms{known: lru.New[*Instance](most, most/16)}
}

// Parse is [ParseInstance]. held is about how many bytes of memory the instance keeps for
// itself, besides what it shares with others of its form.
func (f *Forms) Parse(file string, data []byte) (in *Instance, held int, err error) {
	const alone = int(unsafe.Sizeof(Instance{}))
	h, ok := splitHead(data)
	if !ok {
		in, err = ParseInstance(file, data)
		return in, alone + 3*len(data), err
	}
	first, known := f.known.Get(h.form)
	if !known {
		if first, err = ParseInstance(file, data); err != nil {
			return nil, 0, err
		}
		f.known.Add(h.form, first, alone+3*len(data))
	}
	same := *first
	same.ID, same.Dir = string(h.id), path.Dir(file)
	if len(h.name) > 0 {
		same.Name = string(h.name)
	}
	return &same, alone + len(h.id) + len(h.name), nil
}

// head is a file that begins with the line of the id, in its parts.
type head struct {
	id   []byte
	name []byte // nil where the form has it
	form string // the rest of the file, which isn't told apart from others otherwise
}

// splitHead takes a file apart where the first line is the id and can't mean anything else,
// whatever follows. A second line that is as plainly the name isn't a part of the form.
func splitHead(data []byte) (head, bool) {
	id, rest, ok := firstLine(data, "id: ")
	if !ok || len(data) > maxFile || !plainUUID(id) || !newKey(rest) {
		return head{}, false
	}
	if name, below, ok := firstLine(rest, "name: "); ok && plainName(name) && newKey(below) {
		// No other form begins so.
		return head{id: id, name: name, form: "\x00" + string(below)}, true
	}
	return head{id: id, form: string(rest)}, true
}

// newKey says whether a line begins what follows that doesn't go on with the line above.
func newKey(rest []byte) bool { return len(rest) > 0 && isLetter(rest[0]) }

// firstLine is what stands behind the key in the first line, and the lines after it.
func firstLine(data []byte, key string) (value, rest []byte, ok bool) {
	data, ok = bytes.CutPrefix(data, []byte(key))
	if !ok {
		return nil, nil, false
	}
	return bytes.Cut(data, []byte("\n"))
}

// plainUUID says whether the value is a UUID as Jibe writes it.
func plainUUID(v []byte) bool {
	if len(v) != 36 {
		return false
	}
	for i, c := range v {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

// plainName says whether the value is text and no more than that: of a letter and at least five
// characters after it, as YAML's words for truth and nothing are shorter, and with nothing that
// YAML gives a meaning.
func plainName(v []byte) bool {
	if len(v) <= len("false") || len(v) > maxName || !isLetter(v[0]) {
		return false
	}
	for _, c := range v {
		if !isLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
