package watched

import (
	"context"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// The store of a cluster may be restored from a copy. Its resourceVersions go back then, and a watch that goes on from
// the last version that it has seen waits for the store to get there again, without an error: its facts would
// be those of a future that is lost. Therefore a watch is never resumed on trust: a server that was unreachable is listed
// again, so is one whose store is behind what was seen, and so is every kind after some minutes.

// A kind is listed again after a time between these two: not all kinds, and not all VIMs, at once.
const (
	relistLeast = 7 * time.Minute
	relistMost  = 10 * time.Minute
)

func relistAfter() time.Duration { return relistLeast + rand.N(relistMost-relistLeast) }

// noSuchObject is a name that no object has.
const noSuchObject = "jibe-looks-for-the-resource-version"

// setBack reports whether the server's store of the kind is behind the version, so that a watch from there would
// wait in silence. It lists objects of the one name: also where there is none, the list has the store's version.
func setBack(ctx context.Context, from dynamic.ResourceInterface, name, version string) bool {
	at := parseVersion(version)
	if at == 0 {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, identityPatience)
	defer cancel()
	list, err := from.List(asking, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: 1})
	if err != nil {
		return false // the watch meets the same server, and its error counts
	}
	now := parseVersion(list.GetResourceVersion())
	return now != 0 && now < at
}
