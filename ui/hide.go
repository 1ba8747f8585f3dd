package ui

import (
	"slices"
	"strings"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/desired/gitrepo/read"
)

// hiddenValue stands for the value of a secret.
const hiddenValue = "(hidden)"

// Hide returns what takes secrets that stand in clear out of the lines of one file, those that differ
// and those around them: a repository may have them from before Jibe refused them, or beside vnf.yaml.
// It hides values under names of secrets, the data of Kubernetes' Secrets, private keys and web
// tokens; what refers to a secret, encrypted ones too, stays. It reads no YAML but lines, so that a
// file which can't be parsed is no way around it, and rather hides too much.
func Hide(names desired.SecretNames) func([]read.DiffLine) {
	return func(lines []read.DiffLine) {
		before, after := newHider(names, lines, '-'), newHider(names, lines, '+')
		for i, l := range lines {
			text := l.Text
			if l.Op != '+' {
				text = before.line(i, l.Text)
			}
			if l.Op != '-' {
				switch other := after.line(i, l.Text); {
				case text == l.Text:
					text = other
				case other != l.Text && other != text:
					text = hiddenFrom(l.Text, indentOf(l.Text))
				}
			}
			lines[i].Text = text
		}
	}
}

// hider reads one side of a difference, line by line.
type hider struct {
	names desired.SecretNames
	// secrets are the lines that stand in a YAML document which is or has a Secret of Kubernetes.
	secrets map[int]bool
	// value is the column of the key whose value goes on, and data that of "data" or "stringData" of
	// a Secret, -1 for none. list says that items in the key's own column are its value.
	value, data int
	list        bool
	pem         bool
	// named is the column of a "name" that is one of a secret, whose "value" stands beside it, or -1.
	named int
}

func newHider(names desired.SecretNames, lines []read.DiffLine, side byte) *hider {
	h := &hider{names: names, secrets: map[int]bool{}, value: -1, data: -1, named: -1}
	var document []int
	secret := false
	end := func() {
		for _, i := range document {
			h.secrets[i] = secret
		}
		document, secret = nil, false
	}
	for i, l := range lines {
		if l.Op != side && l.Op != ' ' {
			continue
		}
		if strings.HasPrefix(l.Text, "---") {
			end()
		}
		document = append(document, i)
		secret = secret || saysSecret(l.Text)
	}
	end()
	return h
}

// saysSecret says whether the line has "kind: Secret", in any of YAML's and JSON's ways.
func saysSecret(line string) bool {
	for _, part := range strings.FieldsFunc(line, func(r rune) bool { return r == ',' || r == '{' || r == '}' }) {
		key, value, ok := strings.Cut(part, ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		if ok && strings.Trim(key, " \t\"'-") == "kind" && slices.Contains([]string{"Secret", "SecretList"}, strings.Trim(value, "\"'")) {
			return true
		}
	}
	return false
}

// line is the i-th line as it is shown.
func (h *hider) line(i int, text string) string {
	indent := indentOf(text)
	rest := text[indent:]
	if rest == "" {
		return text
	}
	item := rest == "-" || strings.HasPrefix(rest, "- ")
	if h.pem {
		h.pem = !strings.Contains(text, "-----END ")
		return hiddenFrom(text, indent)
	}
	if h.value >= 0 && (indent > h.value || h.list && item && indent == h.value) {
		return hiddenFrom(text, indent)
	}
	h.value = -1
	column := indent
	for strings.HasPrefix(text[column:], "- ") {
		column += 2 + indentOf(text[column+2:])
	}
	if column > indent || column != h.named {
		h.named = -1
	}
	if h.data >= 0 && indent <= h.data {
		h.data = -1
	}
	switch {
	case strings.Contains(rest, "-----BEGIN ") && strings.Contains(rest, "PRIVATE KEY"):
		h.pem = !strings.Contains(rest, "-----END ")
		return hiddenFrom(text, indent)
	case h.data >= 0:
		h.value = indent
		if key, value, ok := strings.Cut(rest, ":"); ok && !desired.IsRef(bare(value)) {
			return text[:indent] + key + ": " + hiddenValue
		} else if ok {
			return text
		}
		return hiddenFrom(text, indent)
	}
	shown := h.keys(i, text, column)
	if desired.HoldsSecret(shown) {
		return hiddenFrom(text, indent)
	}
	return shown
}

// keys hides what follows the first name of a secret in a line. column is where the line's own key
// begins.
func (h *hider) keys(i int, text string, column int) string {
	for at := 0; ; {
		colon := strings.IndexByte(text[at:], ':')
		if colon < 0 {
			return text
		}
		colon += at
		at = colon + 1
		key := strings.TrimRight(text[:colon], " \t")
		name := strings.Trim(key[strings.LastIndexAny(key, " ,{[\t")+1:], `"'-`)
		value := strings.TrimSpace(text[colon+1:])
		data := h.secrets[i] && (name == "data" || name == "stringData")
		switch {
		case name == "name" && h.names.Match(bare(value)):
			h.named = column
			continue
		case data && value == "":
			h.data = column
			return text
		case name == "" || !data && !h.names.Match(name) && !(name == "value" && h.named >= 0), desired.IsRef(bare(value)):
			continue
		}
		h.value, h.list = column, value == ""
		if value == "" || strings.HasPrefix(value, "|") || strings.HasPrefix(value, ">") {
			return text
		}
		return text[:colon+1] + " " + hiddenValue
	}
}

// bare is a value without quotes, and without what follows it in a list or mapping on the same line.
func bare(value string) string {
	value, _, _ = strings.Cut(strings.TrimSpace(value), ",")
	return strings.Trim(strings.TrimRight(value, "}] "), `"'`)
}

func indentOf(text string) int { return len(text) - len(strings.TrimLeft(text, " \t")) }

// hiddenFrom is the line with all of it hidden but its indentation.
func hiddenFrom(text string, indent int) string { return text[:indent] + hiddenValue }
