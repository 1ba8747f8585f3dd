package auth

import (
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// The short names of attributes (RFC 4514 clause 3, and those that are met besides).
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.5": "SERIALNUMBER", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.17": "POSTALCODE", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
	"1.2.840.113549.1.9.1": "EMAILADDRESS", // as OpenSSL has it
}

// attribute is an attribute of a subject in DER.
type attribute struct {
	Type  asn1.ObjectIdentifier
	Value asn1.RawValue
}

type attributeSET []attribute

// subjectText returns the subject of a certificate, in DER, as RFC 4514 writes it. Two subjects have the same
// text only where they have the same attributes in the same order, of the same characters: pkix.Name leaves
// out a second CN, and puts attributes in an order of its own. A value in another encoding than
// PrintableString, UTF8String and IA5String, whose characters are the same, is written as its bytes.
func subjectText(der []byte) (string, error) {
	var sequence []attributeSET
	if rest, err := asn1.Unmarshal(der, &sequence); err != nil || len(rest) > 0 {
		return "", errors.New("the subject can't be read")
	}
	var names []string
	for _, set := range slices.Backward(sequence) {
		var parts []string
		for _, a := range set {
			parts = append(parts, attributeText(a))
		}
		slices.Sort(parts)
		names = append(names, strings.Join(parts, "+"))
	}
	return strings.Join(names, ","), nil
}

func attributeText(a attribute) string {
	kind := a.Type.String()
	if name := attributeNames[kind]; name != "" {
		kind = name
	}
	return kind + "=" + valueText(a.Value)
}

func valueText(v asn1.RawValue) string {
	switch v.Tag {
	case asn1.TagPrintableString, asn1.TagUTF8String, asn1.TagIA5String:
		if v.Class == asn1.ClassUniversal && !v.IsCompound && utf8.Valid(v.Bytes) {
			return escaped(string(v.Bytes))
		}
	}
	return "#" + hex.EncodeToString(v.FullBytes)
}

// escaped writes a value so that it can be read in one way (RFC 4514 clause 2.4).
func escaped(value string) string {
	var b strings.Builder
	for i, r := range value {
		switch {
		case strings.ContainsRune(`"+,;<>\=`, r), r == '#' && i == 0, r == ' ' && (i == 0 || i == len(value)-1):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// parseSubject reads a distinguished name that RFC 4514 writes, and returns it as [subjectText] does.
func parseSubject(text string) (string, error) {
	var names []string
	for _, rdn := range splitUnescaped(text, ',') {
		var parts []string
		for _, part := range splitUnescaped(rdn, '+') {
			kind, value, ok := strings.Cut(part, "=")
			kind = strings.TrimSpace(kind)
			if !ok || kind == "" {
				return "", fmt.Errorf("subject %.200q isn't a distinguished name, as CN=nfvo,O=Example", text)
			}
			if short := attributeNames[kind]; short != "" {
				kind = short
			} else if !strings.Contains(kind, ".") {
				kind = strings.ToUpper(kind)
				if !knownAttribute(kind) {
					return "", fmt.Errorf("subject %.200q: attribute %.40q has no such name: write its number, as 1.2.840.113549.1.9.1", text, kind)
				}
			}
			value, err := unescaped(value)
			if err != nil {
				return "", fmt.Errorf("subject %.200q: %w", text, err)
			}
			parts = append(parts, kind+"="+value)
		}
		slices.Sort(parts)
		names = append(names, strings.Join(parts, "+"))
	}
	return strings.Join(names, ","), nil
}

func knownAttribute(short string) bool {
	for _, name := range attributeNames {
		if name == short {
			return true
		}
	}
	return false
}

// splitUnescaped splits at each separator that no backslash is before.
func splitUnescaped(text string, at byte) (parts []string) {
	from := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case at:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}

// unescaped reads a value and writes it as [escaped] does.
func unescaped(value string) (string, error) {
	value = strings.TrimLeft(value, " ")
	if rest, ok := strings.CutPrefix(value, "#"); ok {
		bytes, err := hex.DecodeString(strings.TrimSpace(rest))
		if err != nil {
			return "", errors.New("what follows # isn't hexadecimal")
		}
		var raw asn1.RawValue
		if left, err := asn1.Unmarshal(bytes, &raw); err != nil || len(left) > 0 {
			return "", errors.New("what follows # isn't a value in DER")
		}
		return valueText(raw), nil
	}
	var b []byte
	kept := 0 // up to where a blank at the end was escaped
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			b = append(b, value[i])
			continue
		}
		if i+1 == len(value) {
			return "", errors.New("it ends with a backslash")
		}
		if i+2 < len(value) {
			if one, err := hex.DecodeString(value[i+1 : i+3]); err == nil {
				b = append(b, one...)
				i += 2
				kept = len(b)
				continue
			}
		}
		i++
		b = append(b, value[i])
		kept = len(b)
	}
	for len(b) > kept && b[len(b)-1] == ' ' {
		b = b[:len(b)-1]
	}
	if !utf8.Valid(b) {
		return "", errors.New("it isn't UTF-8")
	}
	return escaped(string(b)), nil
}
