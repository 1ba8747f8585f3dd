package audit

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// line is a record as it is written: in its place in the chain. Its text ends with the member
// "mac", a keyed digest of all that stands before it.
type line struct {
	Seq uint64 `json:"seq"`
	Record
	// Prev is the digest of the line before, 64 zeros in the first.
	Prev string `json:"prev"`
}

// Head is the end of a chain: the number of its last record, and the digest of that one's line.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"`
}

// String is how a head is noted down: "17:9f86d0…".
func (h Head) String() string { return fmt.Sprintf("%d:%s", h.Seq, h.Hash) }

// ParseHead reads what [Head.String] writes.
func ParseHead(s string) (Head, error) {
	var h Head
	if n, err := fmt.Sscanf(s, "%d:%s", &h.Seq, &h.Hash); n != 2 || err != nil || h.Seq == 0 || h.String() != s || !isDigest(h.Hash) {
		return Head{}, fmt.Errorf("%.100q is no end of an audit log: want the number of its last record, a colon and that one's digest, as Jibe logs it", s)
	}
	return h, nil
}

func isDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

// start is the head of a chain without records.
func start() Head { return Head{Hash: strings.Repeat("0", 2*sha256.Size)} }

// The lengths to which texts are cut, bytes. Nothing that a stranger sends can make a line longer
// than largestLine, which is also what verifying reads of one at most.
const (
	longestName   = 256
	longestObject = 1024
	longestReason = 1024
	largestLine   = 64 << 10
)

const macMember = `,"mac":"`

// next returns the record's line, with its line break, and the head after it.
func (h Head) next(key []byte, r Record, now time.Time) ([]byte, Head) {
	if r.Time.IsZero() {
		r.Time = now
	}
	r.Time = r.Time.UTC().Truncate(time.Microsecond)
	for _, f := range []struct {
		text *string
		most int
	}{
		{&r.Identity, longestName}, {&r.Issuer, longestName}, {&r.Source, longestName}, {&r.Action, longestName}, {&r.Project, longestName},
		{&r.Commit, longestName}, {&r.Object, longestObject}, {&r.Result, longestObject}, {&r.Reason, longestReason},
	} {
		*f.text = plain(*f.text, f.most)
	}
	r.Outcome = Outcome(plain(string(r.Outcome), longestName))
	// A struct of texts, numbers and a time of this era can always be written.
	text, _ := json.Marshal(line{Seq: h.Seq + 1, Record: r, Prev: h.Hash})
	text = text[:len(text)-1]
	text = fmt.Appendf(text, "%s%s\"}", macMember, mac(key, text))
	return append(text, '\n'), Head{Seq: h.Seq + 1, Hash: digest(text)}
}

// plain cuts a text, and escapes what could be taken for a command by a terminal, or for another
// line by a reader of lines.
func plain(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func mac(key, text []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// follows checks that text, a line without its line break, is the record after h, and returns the
// head after it. Without a key it isn't found out who wrote the line.
func follows(h Head, key, text []byte) (Head, error) {
	next, prev, err := parse(key, text)
	switch {
	case err != nil:
		return h, err
	case next.Seq <= h.Seq:
		return h, fmt.Errorf("record %d stands after record %d: it was moved or doubled", next.Seq, h.Seq)
	case next.Seq == h.Seq+2:
		return h, fmt.Errorf("record %d is missing before it", h.Seq+1)
	case next.Seq > h.Seq+1:
		return h, fmt.Errorf("records %d to %d are missing before it", h.Seq+1, next.Seq-1)
	case prev != h.Hash:
		return h, fmt.Errorf("record %d was written after another record %d than the one before it", next.Seq, h.Seq)
	}
	return next, nil
}

// parse returns the head that text, a line without its line break, makes, and the digest of the
// line before it.
func parse(key, text []byte) (next Head, prev string, err error) {
	var l struct {
		line
		MAC string `json:"mac"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	at := bytes.LastIndex(text, []byte(macMember))
	if err := d.Decode(&l); err != nil || at < 0 || d.InputOffset() != int64(len(text)) || l.Seq == 0 || !isDigest(l.Prev) {
		return Head{}, "", errors.New("it is no record of an audit log")
	}
	if key != nil && (len(text)-at != len(macMember)+2*sha256.Size+2 || !hmac.Equal([]byte(l.MAC), []byte(mac(key, text[:at])))) {
		return Head{}, "", fmt.Errorf("record %d was altered, or is by another installation", l.Seq)
	}
	return Head{Seq: l.Seq, Hash: digest(text)}, l.Prev, nil
}

// headFile is what the file with the head holds.
type headFile struct {
	Head
	MAC string `json:"mac"`
}

func (h Head) file(key []byte) []byte {
	text, _ := json.Marshal(headFile{h, mac(key, []byte("head "+h.String()))}) // texts and a number
	return append(text, '\n')
}

// ReadHead reads the file in which a [File] notes how far it is. It returns fs.ErrNotExist where
// there is none, and an error for one that wasn't written with the key.
func ReadHead(path string, key []byte) (Head, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Head{}, err
	} else if err != nil {
		return Head{}, fmt.Errorf("end of the audit log: %w", err)
	}
	// A shorter text than the one before leaves the rest of that one behind its line break.
	data, _, _ = bytes.Cut(data, []byte("\n"))
	var h headFile
	if err := json.Unmarshal(data, &h); err != nil || !hmac.Equal([]byte(h.MAC), []byte(mac(key, []byte("head "+h.String())))) {
		return Head{}, fmt.Errorf("%s doesn't say how far the audit log goes: it was altered, or is by another installation", path)
	}
	return h.Head, nil
}
