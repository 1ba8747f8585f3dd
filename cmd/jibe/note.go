package main

import (
	"fmt"
	"io"
	"strings"
)

// note says in a few words what is out of the ordinary with an instance: by its attribute
// "jibe", or by "held" in its metadata where it has only that.
func note(o object) string {
	var said []string
	about := dig(o, "jibe")
	if suspended, _ := about["suspended"].(bool); suspended {
		said = append(said, "suspended")
	}
	if heldBy(o) != "" {
		said = append(said, "held")
	}
	if f := dig(about, "failed"); f != nil {
		said = append(said, reason(fmt.Sprintf("%s %s failed: %s", text(f, "operation"), clipID(text(f, "id")), text(f, "reason"))))
	}
	if f := dig(about, "rolledBack"); f != nil {
		said = append(said, reason(fmt.Sprintf("%s %s rolled back: %s", text(f, "operation"), clipID(text(f, "id")), text(f, "reason"))))
	}
	if w := dig(about, "waiting"); w != nil {
		said = append(said, reason(text(w, "operation")+" waits: "+text(w, "for")))
	}
	if list := problemsOf(o); len(list) > 0 {
		said = append(said, reason("not obeyed: "+text(list[0], "message")))
	}
	if n := len(drifted(o)); n > 0 {
		said = append(said, fmt.Sprintf("drifted (%d)", n))
	}
	if text(about, "driftPolicy") == "report" {
		said = append(said, "drift reported only")
	}
	return strings.Join(said, ", ")
}

// heldBy is the failed operation that the instance is held for, or "".
func heldBy(o object) string {
	if op := text(dig(o, "jibe"), "held"); op != "" {
		return op
	}
	return text(dig(dig(o, "instantiatedVnfInfo"), "metadata"), "held")
}

// waiting says what an operation waits for beside its VIM, and since when.
func waiting(o object) string {
	w := dig(dig(o, "jibe"), "waiting")
	if w == nil {
		return ""
	}
	return reason("waits since " + second(text(w, "since")) + " for " + text(w, "for"))
}

// clipID is as much of an id as distinguishes it from others at a glance.
func clipID(id string) string {
	head, _, _ := strings.Cut(id, "-")
	return head
}

// problemsOf are the reasons why the instance's file in git isn't obeyed.
func problemsOf(o object) []object {
	list, _ := dig(o, "jibe")["problems"].([]any)
	var all []object
	for _, x := range list {
		if p, ok := x.(object); ok {
			all = append(all, p)
		}
	}
	return all
}

// drifted are the keys of the instance's objects that differ from git.
func drifted(o object) []string {
	list, _ := dig(o, "jibe")["drifted"].([]any)
	var keys []string
	for _, x := range list {
		if key, ok := x.(string); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// notes explains what [note] said of one instance.
func notes(w io.Writer, o object) {
	if suspended, _ := dig(o, "jibe")["suspended"].(bool); suspended {
		fmt.Fprintf(w, "\nSUSPENDED\n  nothing is done for it until suspend: true goes from its vnf.yaml\n")
	}
	if op := heldBy(o); op != "" {
		fmt.Fprintf(w, "\nHELD\n  operation %s was failed; nothing is done until the next request or commit\n  what failed: jibe get operation %s\n", op, op)
	}
	if f := dig(dig(o, "jibe"), "failed"); f != nil {
		next := fmt.Sprintf("it waits for you: jibe retry, rollback or fail %s", text(f, "id"))
		if automatic, _ := f["automatic"].(bool); automatic {
			next = "it is tried again by itself"
		}
		fmt.Fprintf(w, "\nFAILED\n  %s %s: %s\n  %s\n", text(f, "operation"), text(f, "id"), text(f, "reason"), next)
	}
	if what := dig(dig(o, "jibe"), "waitsFor"); what != nil {
		fmt.Fprintf(w, "\nWAITS\n  since %s for %s\n", second(text(what, "since")), text(what, "for"))
	}
	if f := dig(dig(o, "jibe"), "rolledBack"); f != nil {
		fmt.Fprintf(w, "\nROLLED BACK\n  %s %s: %s\n  what to do: correct that, and instantiate it again\n", text(f, "operation"), text(f, "id"), text(f, "reason"))
	}
	if list := problemsOf(o); len(list) > 0 {
		fmt.Fprintf(w, "\nNOT OBEYED\n")
		for _, p := range list {
			at := text(p, "file")
			if line := text(p, "line"); line != "" {
				at += ":" + line
			}
			fmt.Fprintf(w, "  %s: %s\n", at, text(p, "message"))
		}
		fmt.Fprintf(w, "  what to do: jibe get problems --instance %s\n", text(o, "id"))
	}
	if keys := drifted(o); len(keys) > 0 {
		fmt.Fprintf(w, "\nDRIFTED\n  %s\n  what differs: jibe get drift --instance %s\n", strings.Join(keys, "\n  "), text(o, "id"))
	}
}
