package lcm

// LeavesOut says whether the operation has nothing to do with a commit although its revision has that in its
// history: the commit, or one before it, waited when the operation was asked for beside it.
func (op *Operation) LeavesOut(commit string) bool {
	return op.Beside.Commit != "" && op.After.Commit != commit && (op.Grant == nil || op.Grant.Asked != commit)
}
