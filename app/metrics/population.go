package metrics

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/jibe-vnfm/jibe/desired"
	"github.com/jibe-vnfm/jibe/vnfd"
)

// How many series a metric has at most whose labels name what people make.
const (
	mostDesired   = 500  // packages, folders
	mostInstances = 1000 // instances, files, drifted fields
)

// runs is what an instance is desired to run.
type runs struct{ vnfdID, tree string }

// tally counts what instances are of, for the most frequent of which there are series.
type tally struct {
	packages map[runs]int
	folders  map[string]int
}

func newTally() tally { return tally{map[runs]int{}, map[string]int{}} }

// add counts an instance.
func (t tally) add(h desired.Head) {
	t.folders[folderOf(h.Dir)]++
	if desired.IsInstantiated(h.State) {
		t.packages[runs{h.VnfdID, h.Package}]++
	}
}

// folderOf is the first folder below instances/, "." for an instance that is in none.
func folderOf(dir string) string {
	_, below, _ := strings.Cut(dir, "/")
	folder, _, inFolder := strings.Cut(below, "/")
	if !inFolder {
		return "."
	}
	return folder
}

// most returns the keys with the highest numbers, at most n, and how many the others have
// together.
func most[K comparable](of map[K]int, n int, compare func(a, b K) int) (keys []K, others int) {
	keys = slices.SortedFunc(maps.Keys(of), func(a, b K) int { return cmp.Or(cmp.Compare(of[b], of[a]), compare(a, b)) })
	if len(keys) <= n {
		return keys, 0
	}
	for _, k := range keys[n:] {
		others += of[k]
	}
	return keys[:n], others
}

// versions are what VNFDs say of the packages that instances run. A package is read once.
type versions struct {
	open func(ctx context.Context, tree string) (*vnfd.Package, error)

	mu sync.Mutex
	of map[string]versionOf
	// missing are the trees that couldn't be read, and when that was tried.
	missing map[string]time.Time
}

// missingAge is for how long a tree that couldn't be read isn't tried again.
const missingAge = time.Minute

// versionOf is what a VNFD says of its version, all empty where it can't be read.
type versionOf struct{ product, software, version string }

// find returns what the VNFD of the tree says.
func (v *versions) find(ctx context.Context, tree string) versionOf {
	if tree == "" {
		return versionOf{}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if known, ok := v.of[tree]; ok {
		return known
	}
	if time.Since(v.missing[tree]) < missingAge {
		return versionOf{}
	}
	pkg, err := v.open(ctx, tree)
	if err != nil || pkg.VNFD == nil {
		if len(v.missing) > mostDesired {
			v.missing = map[string]time.Time{}
		}
		v.missing[tree] = time.Now()
		return versionOf{}
	}
	if len(v.of) > 4*mostDesired {
		v.of = map[string]versionOf{}
	}
	found := versionOf{pkg.VNFD.ProductName, pkg.VNFD.SoftwareVersion, pkg.VNFD.Version}
	v.of[tree] = found
	return found
}

// packageReader reads packages.
type packageReader interface {
	Open(ctx context.Context, tree string) (*vnfd.Package, error)
}

// population shows what instances are desired, by package version and by folder.
type population struct {
	exempt   *exemptions
	versions versions

	packages, folders *prometheus.Desc
}

func newPopulation(packages packageReader, exempt *exemptions) *population {
	return &population{
		exempt: exempt, versions: versions{open: packages.Open, of: map[string]versionOf{}, missing: map[string]time.Time{}},
		packages: prometheus.NewDesc("jibe_desired_instances", "VNF instances that are to be instantiated, by what they are to run.",
			[]string{"vnfd_id", "product", "software_version", "package_version"}, nil),
		folders: prometheus.NewDesc("jibe_desired_folder_instances", "VNF instances in the desired repository, by the first folder under instances/.", []string{"folder"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *population) Describe(ch chan<- *prometheus.Desc) {
	ch <- p.packages
	ch <- p.folders
}

// Collect implements prometheus.Collector.
func (p *population) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	t := p.exempt.read().tally
	keys, others := most(t.packages, mostDesired, func(a, b runs) int {
		return cmp.Or(cmp.Compare(a.vnfdID, b.vnfdID), cmp.Compare(a.tree, b.tree))
	})
	type series struct {
		id string
		versionOf
	}
	counts := map[series]int{} // two trees may say the same of themselves
	for _, k := range keys {
		counts[series{k.vnfdID, p.versions.find(ctx, k.tree)}] += t.packages[k]
	}
	if others > 0 {
		counts[series{otherSeries, versionOf{otherSeries, otherSeries, otherSeries}}] += others
	}
	for s, n := range counts {
		gauge(ch, p.packages, float64(n), s.id, s.product, s.software, s.version)
	}
	folders, others := most(t.folders, mostDesired, cmp.Compare[string])
	for _, f := range folders {
		if f == otherSeries {
			others += t.folders[f]
			continue
		}
		gauge(ch, p.folders, float64(t.folders[f]), f)
	}
	if others > 0 {
		gauge(ch, p.folders, float64(others), otherSeries)
	}
}
