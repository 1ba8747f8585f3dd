package grant

import (
	"strings"
	"unicode"
)

const (
	// maxID is how many bytes the id of a grant may have: it stands in records and in a commit's
	// message.
	maxID = 255
	// maxEntries is how many entries a list of a grant may have that the request doesn't bound.
	maxEntries = 1000
	// maxHref is how many bytes of a URI are kept that is only shown.
	maxHref = 2000
)

// bounded refuses a grant that no NFVO means: what can't stand in a record, and what would take
// long to read.
func (g *Grant) bounded() error {
	switch {
	case g.ID == "":
		return wrong("it has no id")
	case len(g.ID) > maxID || strings.ContainsFunc(g.ID, func(r rune) bool { return !unicode.IsPrint(r) }):
		return wrong("its id has more than %d bytes, or characters that can't be shown: %.40q", maxID, g.ID)
	}
	for _, list := range []struct {
		name string
		n    int
	}{
		{"vimConnectionInfo", len(g.VIMConnections)}, {"zones", len(g.Zones)},
		{"vimAssets", len(g.VIMAssets.Flavours) + len(g.VIMAssets.Images)},
		{"extVirtualLinks", len(g.ExtVirtualLinks)}, {"extManagedVirtualLinks", len(g.ExtManagedVirtualLinks)},
	} {
		if list.n > maxEntries {
			return wrong("it has %d %s, and at most %d are read", list.n, list.name, maxEntries)
		}
	}
	return nil
}
