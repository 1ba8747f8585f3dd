// Package gitname knows which names of files git and file systems take for those that git reads itself.
package gitname

import (
	"strings"
	"unicode/utf8"
)

// IsDotGit reports whether a file system could read the name of a file or folder as ".git": HFS+ drops code points that show
// nothing, NTFS drops dots and spaces at the end and knows the short name GIT~1, and neither tells upper from lower case.
// Git refuses to read a commit with such a name where it checks what it gets (git-fsck(1), hasDotgit).
func IsDotGit(name string) bool {
	return strings.EqualFold(onHFS(name), ".git") || strings.EqualFold(onNTFS(name), ".git") || strings.EqualFold(onNTFS(name), "git~1")
}

// IsSpecial reports whether git may check the content of a file with the name: .gitmodules and .gitattributes, however a file
// system lets them be spelled. It is true of some names that git takes for ordinary ones.
func IsSpecial(name string) bool {
	for _, as := range []string{onHFS(name), onNTFS(name)} {
		low := strings.ToLower(as)
		if low == ".gitmodules" || low == ".gitattributes" || strings.HasPrefix(low, "gi") && strings.Contains(low, "~") {
			return true
		}
	}

	return false
}

// onHFS is the name as HFS+ compares it, but for case.
func onHFS(name string) string {
	if !utf8.ValidString(name) {
		return name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, name)
}

// onNTFS is the name as NTFS compares it, but for case. What follows a colon is a stream of the file.
func onNTFS(name string) string {
	name, _, _ = strings.Cut(name, ":")
	return strings.TrimRight(name, ". ")
}
