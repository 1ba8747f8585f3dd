package doctor

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// gitFixed are the first releases of each branch of git 2 that have the security fixes which
// matter to a server that fetches what others have made: of 2024 (CVE-2024-32002 and its kind) for
// 2.39, and of July 2025 (CVE-2025-48384, CVE-2025-48385) for the branches that had a release then.
// Branches between them have none, newer ones have them from the start.
var gitFixed = map[int]int{39: 5, 43: 7, 44: 4, 45: 4, 46: 4, 47: 3, 48: 2, 49: 1, 50: 1}

// newestFixed is the newest branch in gitFixed.
const newestFixed = 50

// gitProof is the fix that the changelog of a distribution's package is searched for: such
// packages keep the number of the version, and add fixes.
const gitProof = "CVE-2025-48384"

var gitRelease = regexp.MustCompile(`(\d+)\.(\d+)(?:\.(\d+))?`)

// gitUnfixed returns why a git lacks security fixes as far as its version tells; "" where it has
// them, or says no version.
func gitUnfixed(version string) string {
	m := gitRelease.FindStringSubmatch(version)
	if m == nil {
		return ""
	}
	major, _ := strconv.Atoi(m[1])
	branch, _ := strconv.Atoi(m[2])
	release, _ := strconv.Atoi(m[3])
	first, has := gitFixed[branch]
	switch {
	case major != 2 || branch > newestFixed || has && release >= first:
		return ""
	case has:
		return fmt.Sprintf("git %s lacks security fixes of git: its branch has them from 2.%d.%d on", m[0], branch, first)
	}
	return fmt.Sprintf("git %s lacks security fixes of git, and its branch has none any more", m[0])
}

// debianChangelog is what the package of Debian and of what is made from it has changed, below the root.
const debianChangelog = "usr/share/doc/git/changelog.Debian.gz"

// mostChangelog bounds what is read of a changelog, in bytes.
const mostChangelog = 1 << 20

// gitBackported reports whether the git whose programs are in a folder is that of a
// distribution's package, whose changelog names the fixes.
func gitBackported(root, programs string) bool {
	if in, err := filepath.Rel(filepath.Join(root, "usr", "lib"), programs); err != nil || strings.HasPrefix(in, "..") {
		return false // one that was built on this machine, as in /usr/local
	}
	f, err := os.Open(filepath.Join(root, filepath.FromSlash(debianChangelog)))
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := gzip.NewReader(f)
	if err != nil {
		return false
	}

	lines := bufio.NewScanner(io.LimitReader(text, mostChangelog))
	for lines.Scan() {
		if strings.Contains(lines.Text(), gitProof) {
			return true
		}
	}
	return false
}
