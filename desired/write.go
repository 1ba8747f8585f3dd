package desired

// Files is the content of one directory: relative path -> content.
type Files map[string][]byte

// Change makes a directory's new content out of its old one. It is run again
// when someone else moved the branch meanwhile, so it must not keep state
// between calls. It must not alter old. An error refuses the write. nil, or a
// result without files, removes the directory.
type Change func(at Revision, old Files) (Files, error)

// Write is one commit on one instance's directory.
type Write struct {
	// Instance is the id. Dir is used where the instance doesn't exist yet.
	Instance string
	Dir      string
	// Subject is the first line of the commit message, Body the rest, Trailers
	// stand last, in order ("Vnf-Lcm-Op-Occ: …").
	Subject, Body string
	Trailers      []Trailer
	// By is the author as git writes it, "name <mail>"; "" is Jibe itself.
	By     string
	Change Change
	// Beside, if not nil, has the write build on another revision than head's, for which an operation
	// waits.
	Beside *Beside
}

// Beside is the other part of a write that leaves a change alone which waits at head. Change is then given
// the directory as it was at From, and makes one commit out of that; a second one follows it, which
// puts back what waits. Both come to the branch in one move, so that nobody sees head between them. The
// write's revision is that of the first.
type Beside struct {
	From Revision
	// Subject, Body, Trailers and By are those of the second commit.
	Subject, Body string
	Trailers      []Trailer
	By            string
	// Change makes the directory's content at head out of what it was, and of what the first commit has
	// made. As [Change], it runs again where somebody else was faster.
	Change func(waits, made Files) (Files, error)
}

// WriteMany is one commit on the directories of many instances and on files of rollouts.
type WriteMany struct {
	// Instances are written where their Change allows. One that refuses, is gone or is held as it
	// was drops out: the others are committed without it.
	Instances []InstanceChange
	// Files are paths below rollouts/ that Change reads. Change makes their new content (nil
	// removes a file), after it is known which instances are written. An error of it refuses all
	// of the write. As [Change], it runs again where somebody else was faster.
	Files  []string
	Change func(now map[string][]byte, done []Revised) (map[string][]byte, error)
	// Subject, Body, Trailers and By are those of [Write].
	Subject, Body string
	Trailers      []Trailer
	By            string
}

// InstanceChange is the change of one instance's directory.
type InstanceChange struct {
	Instance string
	Change   Change
}

// Revised is an instance before and after a commit.
type Revised struct{ Before, After Revision }

// Written is what came of a [WriteMany].
type Written struct {
	// Commit is "" where nothing differed.
	Commit string
	// Done are the instances that were written, Refused the errors of the others.
	Done    []Revised
	Refused map[string]error
}
