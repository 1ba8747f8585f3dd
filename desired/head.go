package desired

// Head is an instance as it counts at head, with what lists are filtered by. Where the file at
// head isn't obeyed, it is that of the last good revision.
type Head struct {
	Revision
	Name, Description, VnfdID string
	// Package is the git tree hash of the package that runs, "" where none is pinned.
	Package string
	// State is Instantiated, Stopped or NotInstantiated.
	State   string
	Flavour string
	// Held is the operation that failed on the instance, "" for none.
	Held    string
	Suspend bool
	// Drift is DriftCorrect or DriftReport.
	Drift string
	// EM names the element manager of the instance, "" for none.
	EM string
	// VIM names the VIM that the file names, "" where it names none.
	VIM string
	// Needs are those of the file; they aren't to be altered.
	Needs []Need
}

// HeadOf is the instance in that was read at rev.
func HeadOf(rev Revision, in *Instance) Head {
	return Head{Revision: rev, Name: in.Name, Description: in.Description, VnfdID: in.VnfdID, Package: in.Package, State: in.State,
		Flavour: in.Flavour, Held: in.Held, Suspend: in.Suspend, Drift: in.Drift, EM: in.EM, VIM: in.VIM, Needs: in.Needs}
}
