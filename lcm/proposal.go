package lcm

// ProposalBranches begins the names of the branches that requests are proposed on.
const ProposalBranches = "jibe/op/"

// ProposalBranch is the branch on which the change of an operation is proposed.
func ProposalBranch(operation string) string { return ProposalBranches + operation }

// Proposal says how a pull request proposes the change that an operation is to bring about.
type Proposal struct {
	// Number is the pull request's on the forge, 0 while none is known to have been opened.
	Number int64 `json:"number,omitempty"`
	// Link is the URL of its page.
	Link string `json:"link,omitempty"`
	// Anytime says that it may begin outside of maintenance windows, as an administrator has asked.
	Anytime bool `json:"anytime,omitempty"`
	// Merged is the commit of the desired branch at which the change was found, "" before.
	Merged string `json:"merged,omitempty"`
}

// Proposed says whether the operation's change is only proposed: its revision After stands on a branch of its own,
// and nothing of it may be done.
func (o *Operation) Proposed() bool { return o.Proposal != nil && o.Proposal.Merged == "" }
