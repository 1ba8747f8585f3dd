package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// report prints figures as they come, each on a line of its own.
type report struct {
	w              io.Writer
	judged, missed int
}

// times are the samples of one figure.
type times []time.Duration

// at is the sample below which the share p of all lies.
func (t times) at(p float64) time.Duration {
	if len(t) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(t))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func (t times) median() time.Duration { return t.at(0.5) }

func (r *report) section(title string) { fmt.Fprintf(r.w, "\n%s\n", title) }

// line prints text as it is.
func (r *report) line(text string) { fmt.Fprintln(r.w, text) }

// note prints what no figure says.
func (r *report) note(format string, args ...any) { fmt.Fprintf(r.w, "  - "+format+"\n", args...) }

// progress says how far a long part is, beside the figures.
func (r *report) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// latency prints a figure of many samples. limit bounds the median; 0 is no limit.
func (r *report) latency(name string, t times, limit time.Duration, more string) {
	if limit > 0 {
		more = r.verdict(t.median() <= limit, fmt.Sprintf("p50 <= %s", short(limit))) + "  " + more
	}
	fmt.Fprintf(r.w, "  %-62s p50 %9s  p95 %9s  n=%-5d %s\n", name, short(t.median()), short(t.at(0.95)), len(t), more)
}

// value prints a figure of one number. limit says what it is held against, "" nothing.
func (r *report) value(name, value string, met bool, limit, more string) {
	if limit != "" {
		more = r.verdict(met, limit) + "  " + more
	}
	fmt.Fprintf(r.w, "  %-62s %s  %s\n", name, value, more)
}

func (r *report) verdict(met bool, limit string) string {
	r.judged++
	if met {
		return fmt.Sprintf("[met: %s]", limit)
	}
	r.missed++
	return fmt.Sprintf("[MISSED: %s]", limit)
}

func (r *report) total(took time.Duration) {
	fmt.Fprintf(r.w, "\n%d of %d targets met, in %s\n", r.judged-r.missed, r.judged, short(took))
}

// short is a duration with three figures.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.2f ms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func ratio(a, b float64) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2fx", a/b)
}
