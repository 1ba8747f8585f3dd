package app_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/drivers/sim"
	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
)

// BenchmarkScrape is one scrape of a server with 10,000 instances in 1,000 folders.
func BenchmarkScrape(b *testing.B) {
	const instances, folders = 10_000, 1_000
	s, stop := start(b, b.TempDir(), sim.NewCloud(), "")
	b.Cleanup(stop)
	files := map[string]string{}
	for n := range instances {
		files[fmt.Sprintf("instances/f%d/i%d/vnf.yaml", n%folders, n)] = "name: n\nvnfdId: none\nflavour: simple\nstate: notInstantiated\n"
	}
	if err := process.Fill(b.Context(), filepath.Join(s.Data, "desired.git"), "Many instances", files); err != nil {
		b.Fatal(err)
	}
	read := func(ctx context.Context) (string, error) {
		a, err := s.Do(ctx, http.MethodGet, "/metrics", nil)
		if err != nil {
			return "", err
		}
		return string(a.Body), nil
	}
	var text string
	kit.Eventually(b, func() (err error) {
		if text, err = read(b.Context()); err == nil && !strings.Contains(text, fmt.Sprintf("\njibe_instances %d\n", instances)) {
			err = fmt.Errorf("not all instances are there")
		}
		return err
	})
	for b.Loop() {
		if _, err := read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(text)), "bytes")
	b.ReportMetric(float64(strings.Count(text, "\njibe_")), "series")
}
