package browser

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
)

// update writes the pictures anew: "go test ./test/browser -pictures".
var update = flag.Bool("pictures", false, "write the pictures that pages are compared with anew")

const (
	// block is the side of the squares that are compared, in pixels: what moves by less isn't seen.
	block = 16
	// most is by how much the mean of a square may differ (of 255), and share how many squares
	// may differ by more, of a thousand: another version of a font library draws letters a little
	// differently, and numbers and times aren't the same in each run.
	most, share = 28, 15
)

// Looks fails the test where what is seen isn't what testdata/NAME.png shows: a part that is
// missing or has moved, another colour. What differs is kept beside the test's other files.
func (p *Tab) Looks(name string) {
	p.t.Helper()
	now := p.Screenshot(false)
	file := filepath.Join("testdata", name+".png")
	if *update {
		if err := os.WriteFile(file, now, 0o644); err != nil {
			p.t.Fatal(err)
		}
		return
	}
	was, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatalf("%v (go test ./test/browser -pictures writes it)", err)
	}
	if err := similar(was, now); err != nil {
		kept := filepath.Join(os.TempDir(), "jibe-"+name+".png")
		if werr := os.WriteFile(kept, now, 0o644); werr != nil {
			kept = werr.Error()
		}
		p.t.Errorf("the page doesn't look like %s: %v (it looks like %s)", file, err, kept)
	}
}

// similar says in what two pictures differ by more than is allowed.
func similar(a, b []byte) error {
	x, err := png.Decode(bytes.NewReader(a))
	if err != nil {
		return err
	}
	y, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return err
	}
	if x.Bounds() != y.Bounds() {
		return fmt.Errorf("its size is %s, want %s", y.Bounds().Size(), x.Bounds().Size())
	}
	all, differ := 0, 0
	size := x.Bounds().Size()
	for top := 0; top < size.Y; top += block {
		for left := 0; left < size.X; left += block {
			all++
			if distance(mean(x, left, top), mean(y, left, top)) > most {
				differ++
			}
		}
	}
	if differ*1000 > all*share {
		return fmt.Errorf("%d of %d squares differ", differ, all)
	}
	return nil
}

// mean is the mean colour of a square.
func mean(m image.Image, left, top int) (c [3]int) {
	n := 0
	for y := top; y < min(top+block, m.Bounds().Max.Y); y++ {
		for x := left; x < min(left+block, m.Bounds().Max.X); x++ {
			p := color.NRGBAModel.Convert(m.At(x, y)).(color.NRGBA)
			c[0], c[1], c[2], n = c[0]+int(p.R), c[1]+int(p.G), c[2]+int(p.B), n+1
		}
	}
	for i := range c {
		c[i] /= max(n, 1)
	}
	return c
}

func distance(a, b [3]int) int {
	d := 0
	for i := range a {
		d = max(d, a[i]-b[i], b[i]-a[i])
	}
	return d
}
