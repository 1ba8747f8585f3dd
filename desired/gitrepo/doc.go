// Package gitrepo owns the desired repository as git: which instances stand at
// which commit, and how a change of one directory becomes a durable commit.
//
// Real git does what must exclude or survive other gits: it moves the ref (one
// long-lived "git update-ref"), serves pushes, fetches, pushes and repacks. This
// package reads objects through a pool of "git cat-file" children, builds blobs,
// trees and commits itself without a work tree, and writes those of one batch as
// one fsynced pack.
//
// It never checks anything out, never serves git itself, never decides what an
// instance means (that is package desired), and never treats a repository that
// can't be read as an empty one.
package gitrepo
