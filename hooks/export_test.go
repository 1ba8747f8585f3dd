package hooks

import "slices"

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

// Mute has the runner give runs no sign of life, as one that is stopped doesn't.
func Mute(r *Runner) { r.mute = true }
