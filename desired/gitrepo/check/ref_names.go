package check

import (
	"regexp"
	"strings"
)

// MisleadingRef says why git would take a branch's or a tag's name for something else, "" where it wouldn't: who has
// fetched such a ref pushes, merges or shows another commit than they name. main is the branch of the desired state.
// (gitrevisions(7) has the order in which git looks a name up; git push takes a tag HEAD for its HEAD.)
func MisleadingRef(ref, main string) string {
	name, branch := strings.CutPrefix(ref, "refs/heads/")
	if !branch {
		name, _ = strings.CutPrefix(ref, "refs/tags/")
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	first, _, deep := strings.Cut(name, "/")

	switch {
	case last == "@", strings.EqualFold(last, "HEAD"), len(last) > 5 && strings.EqualFold(last[len(last)-5:], "_HEAD"):
		return "git has a meaning of its own for " + last
	case strings.EqualFold(name, main) && (!branch || name != main):
		return "it could be taken for the branch " + main
	case deep && pathsOfRefs[first]:
		return "it could be taken for a ref below " + first + "/"
	case strings.HasPrefix(name, "-"):
		return "programs take what begins with - for an option"
	case objectID.MatchString(name) && (strings.ContainsAny(name, "abcdefABCDEF") || len(name) == 40 || len(name) == 64):
		return "it could be taken for the id of a commit"
	}

	return ""
}

// pathsOfRefs are the folders in which git looks for a name by itself; origin is what a clone has below remotes.
var pathsOfRefs = map[string]bool{"refs": true, "heads": true, "tags": true, "remotes": true, "origin": true}

// objectID matches what can be an object's id, or the beginning of one, as git shows it. A date is none.
var objectID = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)
