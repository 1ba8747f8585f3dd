package lcm

// LeavesOut says whether the operation has nothing to do with a commit although its revision has that in its
// history: the commit, or one before it, waited when the operation was asked for beside it.
func (o *Operation) LeavesOut(commit string) bool {
	return o.Beside.Commit != "" && o.After.Commit != commit && (o.Grant == nil || o.Grant.Asked != commit)
}
