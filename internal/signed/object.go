package signed

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a commit or tag, taken apart.
type object struct {
	kind      string // "commit" or "tag"
	payload   []byte // what is signed
	signature string // armoured, with its last line end; "" where there is none
	// at is when the object says that it was made.
	at          time.Time
	tag, target string // of a tag: its name, and the commit that it names
}

// maxObject is the size of a commit or tag that is looked at, in bytes.
const maxObject = 4 << 20

// header is one header of an object, with what continues it.
type header struct {
	name  string
	value string // without the last line end; lines that continue it without their space
	from  int    // where it begins in the object
	to    int    // where the next begins
}

// readHeaders reads the headers of an object up to the empty line, and where its message begins.
func readHeaders(raw []byte) (headers []header, message int, err error) {
	for at := 0; ; {
		end := bytes.IndexByte(raw[at:], '\n')
		if end < 0 {
			return nil, 0, refuse("its headers have no end")
		}
		line := string(raw[at : at+end])
		next := at + end + 1
		switch {
		case line == "":
			return headers, next, nil
		case strings.ContainsAny(line, "\x00\r"):
			return nil, 0, refuse("its headers hold control characters")
		case line[0] == ' ':
			if len(headers) == 0 {
				return nil, 0, refuse("its first header has no name")
			}
			last := &headers[len(headers)-1]
			last.value += "\n" + line[1:]
			last.to = next
		default:
			name, value, ok := strings.Cut(line, " ")
			if !ok || name == "" {
				return nil, 0, refuse("it has a header without a value: %s", clip(line))
			}
			headers = append(headers, header{name, value, at, next})
		}
		at = next
	}
}

// splitCommit takes a commit apart. Where git and another reader could see different commits in
// it, it is refused.
func splitCommit(raw []byte) (object, error) {
	o := object{kind: "commit"}
	if len(raw) > maxObject {
		return o, refuse("the commit has more than %d bytes", maxObject)
	}
	headers, _, err := readHeaders(raw)
	if err != nil {
		return o, err
	}
	order := []string{"tree", "parent", "author", "committer"}
	at := 0
	count := map[string]int{}
	var signature *header
	for i := range headers {
		h := &headers[i]
		count[h.name]++
		switch known := slices.Index(order, h.name); {
		case known >= 0 && (known < at || strings.Contains(h.value, "\n") || at == len(order)):
			return o, refuse("the commit's header %s isn't where git writes it", h.name)
		case known >= 0:
			at = known
		case at < len(order)-1:
			return o, refuse("the commit's header %s isn't where git writes it", clip(h.name))
		default:
			at = len(order) // no known one may follow
		}
		switch h.name {
		case "gpgsig":
			if signature != nil {
				return o, refuse("the commit has two signatures")
			}
			signature = h
		case "gpgsig-sha256":
			return o, refuse("the commit has a second signature, for SHA-256")
		case "committer":
			if o.at, err = stamp(h.value); err != nil {
				return o, err
			}
		}
	}
	if count["tree"] != 1 || count["author"] != 1 || count["committer"] != 1 {
		return o, refuse("the commit's headers aren't those that git writes")
	}
	if signature == nil {
		o.payload = raw
		return o, nil
	}
	// Some forges end a signature with an empty line.
	o.signature = strings.TrimSuffix(signature.value, "\n") + "\n"
	o.payload = slices.Concat(raw[:signature.from], raw[signature.to:])
	return o, nil
}

// splitTag takes an annotated tag apart.
func splitTag(raw []byte) (object, error) {
	o := object{kind: "tag"}
	if len(raw) > maxObject {
		return o, refuse("the tag has more than %d bytes", maxObject)
	}
	headers, message, err := readHeaders(raw)
	if err != nil {
		return o, err
	}
	order := []string{"object", "type", "tag", "tagger"}
	if len(headers) != len(order) {
		return o, refuse("the tag's headers aren't those that git writes")
	}
	for i, h := range headers {
		if h.name != order[i] || strings.Contains(h.value, "\n") {
			return o, refuse("the tag's header %s isn't where git writes it", clip(h.name))
		}
	}
	if headers[1].value != "commit" {
		return o, refuse("the tag names a %s, not a commit", clip(headers[1].value))
	}
	o.target, o.tag = headers[0].value, headers[2].value
	if o.at, err = stamp(headers[3].value); err != nil {
		return o, err
	}
	// The signature is what ends the message.
	for at := message; at < len(raw); {
		if line := raw[at:]; bytes.HasPrefix(line, []byte(beginSSH)) || bytes.HasPrefix(line, []byte(beginPGP)) {
			o.payload, o.signature = raw[:at], string(line)
			return o, nil
		}
		end := bytes.IndexByte(raw[at:], '\n')
		if end < 0 {
			break
		}
		at += end + 1
	}
	o.payload = raw
	return o, nil
}

// stamp is the time in "name <mail> 1700000000 +0000".
func stamp(ident string) (time.Time, error) {
	f := strings.Fields(ident[strings.LastIndexByte(ident, '>')+1:])
	if len(f) != 2 {
		return time.Time{}, refuse("it doesn't say when it was made")
	}
	seconds, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, refuse("it doesn't say when it was made")
	}
	return time.Unix(seconds, 0), nil
}

// Unsigned is the commit without its signature; what isn't a commit is returned as it is.
func Unsigned(commit []byte) []byte {
	o, err := splitCommit(commit)
	if err != nil {
		return commit
	}
	return o.payload
}
