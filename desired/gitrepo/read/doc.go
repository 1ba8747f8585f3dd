// Package read reads the desired state at any commit: instances, settings, what differs between two commits, and which
// directory is obeyed for an id (the index). It writes nothing, judges nothing, and asks no remote.
//
// Where to look: snapshot.go answers for one commit, diff_dirs.go finds the directories that differ between two, index.go
// decides who has an id, lost_ids.go, absence.go and clashes.go find what was lost by a slip, settings_inforce.go which
// settings count.
package read
