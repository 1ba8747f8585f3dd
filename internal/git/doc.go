// Package git is the plumbing between Jibe and git repositories: it knows git's
// formats and protocols, and nothing of what Jibe keeps there.
//
// Real git does what must exclude or survive other gits: it moves refs (one
// long-lived "git update-ref", [RefUpdater]), fetches, pushes and repacks
// ([Runner]). Objects are read through long-lived "git cat-file" children
// ([Objects]). Blobs, trees and commits are made here, without a work tree
// ([TreeEditor], [EncodeCommit]), and those of one batch are written as one fsynced
// pack ([Pack]).
//
// Object names are SHA-1 in lower-case hexadecimal; "" is no object. The package
// never checks anything out and never decides what a repository means.
package git
