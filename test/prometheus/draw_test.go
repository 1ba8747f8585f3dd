package prometheus

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// renderer is the page that draws a dashboard from its JSON and Prometheus' answers.
//
//go:embed renderer
var renderer embed.FS

const (
	// envPictures names the environment variable with the folder that pictures are written to.
	envPictures = "JIBE_TEST_PICTURES"
	// envLinger names the one with how long the run goes on before they are drawn, so that
	// there is something to see, as 3m.
	envLinger = "JIBE_TEST_PICTURES_AFTER"
	// mostBytes is how large a picture in the guides may be.
	mostBytes = 200_000
)

// drawAll draws each dashboard in Chromium, and keeps the pictures where a person asked for
// them. A panel that can't be drawn, or that shows nothing, fails the test.
func drawAll(t *testing.T, p *prometheus, instance string) {
	t.Helper()
	chromium := testenv.Program(t, "chromium-headless-shell", "chromium-headless-shell")
	dir := cmp.Or(os.Getenv(envPictures), t.TempDir())
	page := httptest.NewServer(pages(t, p))
	t.Cleanup(page.Close)
	browser, cancel := chromedp.NewContext(t.Context(), chromedp.WithAllocatorOptions(
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WindowSize(1200, 900)))
	defer cancel()
	if err := chromedp.Do(browser); err != nil { // it lives as long as the context that it is started with
		t.Fatalf("start chromium: %v", err)
	}
	from, to := p.started, time.Now()
	for _, d := range dashboards(t) {
		query := url.Values{"dashboard": {d.UID}, "from": {fmt.Sprint(from.Unix())}, "to": {fmt.Sprint(to.Unix())}, "step": {fmt.Sprint(max(1, int(to.Sub(from).Seconds())/300))},
			"rate": {"10s"}, "job": {".*"}, "instance": {instance}}
		picture := shot(t, browser, page.URL+"/?"+query.Encode(), d.Title)
		small, err := paletted(picture)
		if err != nil {
			t.Fatal(err)
		}
		if len(small) > mostBytes && os.Getenv(envPictures) != "" { // the longer a run, the more there is to draw
			t.Errorf("the picture of %s has %d bytes, more than %d", d.Title, len(small), mostBytes)
		}
		if err := os.WriteFile(filepath.Join(dir, "dashboard-"+strings.TrimPrefix(d.UID, "jibe-")+".png"), small, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// pages serves the renderer, the dashboards as they are shipped, and Prometheus' API.
func pages(t *testing.T, p *prometheus) http.Handler {
	t.Helper()
	files, err := fs.Sub(renderer, "renderer")
	if err != nil {
		t.Fatal(err)
	}
	api, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", httputil.NewSingleHostReverseProxy(api))
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard/", http.FileServer(http.Dir(filepath.Join(process.Root(), "charts", "jibe", "dashboards")))))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { http.ServeFileFS(w, r, files, "page.html") })
	mux.Handle("/", http.FileServerFS(files))
	return mux
}

// shot is the picture of a page that has drawn itself.
func shot(t *testing.T, browser context.Context, address, title string) (picture []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(browser, 2*time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(address), chromedp.WaitReady("body[data-done]")); err != nil {
		t.Fatalf("draw %s: %v", title, err)
	}
	failures, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`window.failures`))
	if err != nil {
		t.Fatalf("draw %s: %v", title, err)
	}
	empty, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll(".empty")].map(e => e.parentElement.querySelector("h2").textContent)`))
	if err != nil {
		t.Fatalf("draw %s: %v", title, err)
	}
	if picture, err = chromedp.Run(ctx, chromedp.FullScreenshot(100)); err != nil {
		t.Fatalf("draw %s: %v", title, err)
	}
	for _, f := range failures {
		t.Errorf("%s: %s", title, f)
	}
	if len(empty) > 0 {
		t.Logf("%s: no data in %s", title, strings.Join(empty, ", "))
	}
	return picture
}

// paletted is a picture with its 256 most frequent colours, which for text and lines are as
// good as all and a third of the bytes.
func paletted(text []byte) ([]byte, error) {
	full, err := png.Decode(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	b := full.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, b, _ := full.At(x, y).RGBA()
			count[color.RGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 255}]++
		}
	}
	often := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	var palette color.Palette
	for _, c := range often[:min(256, len(often))] {
		palette = append(palette, c)
	}
	small := image.NewPaletted(b, palette)
	draw.Draw(small, b, full, b.Min, draw.Src)
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}
