// Package gitrepo owns the desired repository: which instances stand at which
// commit, and how a change of one directory becomes a durable commit.
//
// How git is run, read and written is package internal/git's to know. It never
// checks anything out, never serves git itself (real git does), never decides what
// an instance means (that is package desired), and never treats a repository that
// can't be read as an empty one.
//
// Where to look: repo.go opens the repository and follows its branch, lookup.go answers for head.
// writer.go and batch.go make commits, propose.go makes them on other branches, land.go and
// merge.go put what people push on top of them, remote.go exchanges them with a remote.
// recover_*.go find after a start what head alone doesn't say.
//
// The rooms below know nothing of it: objects reads commits, trees and files, message what commits
// say, read the desired state at any commit, check what a push hook asks,
// archive the archive of old history.
package gitrepo
