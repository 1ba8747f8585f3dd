package hooks

import (
	"context"
	"slices"
)

// KnowContainerUpdate has the text taken for the older VNFM's container update until forget
// is called: its own may not stand in this project.
func KnowContainerUpdate(text string) (forget func()) {
	was := updatesContainers
	updatesContainers = append(slices.Clone(was), textDigest(text))
	return func() { updatesContainers = was }
}

// Look is what the text of a Python file tells of a hook: "starts", "may start" or the class
// that is called, or why there is none.
func Look(text, hook, class string) string {
	f := parsePython(text)
	if f.starts != no {
		return map[certainty]string{yes: "starts", perhaps: "may start"}[f.starts]
	}
	name, reason := f.class(hook, class)
	if reason != "" {
		return reason
	}
	return "class " + name
}

// Imports are the modules that the Python file can't do without.
func Imports(text string) []string { return parsePython(text).imports }

// WithoutNamespaces has the runner do as where the system grants none.
func WithoutNamespaces(r *Runner, abi int) {
	r.able.known, r.able.namespaces, r.able.abi = true, false, abi
}

// KeepFromNamespaces has the runner, which has found out what the system can do, make no namespaces.
func KeepFromNamespaces(r *Runner) { r.able.namespaces = false }

// Probe asks what this machine can confine hooks by.
func Probe(r *Runner) error {
	r.able.mu.Lock()
	defer r.able.mu.Unlock()

	return r.probe(context.Background())
}

// AbleAs has the runner take for granted what another has found out about the machine.
func AbleAs(r, other *Runner) {
	r.able.known, r.able.namespaces, r.able.abi = true, other.able.namespaces, other.able.abi
}

// SpeaksOlder reports whether a file of that path and text speaks the older contract.
func SpeaksOlder(text, path, hook, class string) bool {
	return parsePython(text).speaksOlder(path, hook, class)
}

// OutputOf returns what is taken of the standard output of a hook that succeeds, or why it fails.
func OutputOf(c Call, stdout []byte) (Output, string) {
	h := newHead()
	if _, err := h.Write(stdout); err != nil {
		return Output{}, err.Error()
	}
	if h.full {
		return Output{}, tooMuch
	}

	return h.output(newRedactor(c))
}

// StderrOf returns what is shown of the standard error of a hook that was written in these parts.
func StderrOf(c Call, parts ...string) string {
	t := &tail{redactor: newRedactor(c)}
	for _, part := range parts {
		_, _ = t.Write([]byte(part)) // it is kept in memory
	}
	t.close(false)

	return t.text()
}

// Mute has the runner give runs no sign of life, as one that is stopped doesn't.
func Mute(r *Runner) { r.mute = true }
