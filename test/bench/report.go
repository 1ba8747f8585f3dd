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
	page           *page // takes the same figures; nil is none
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

func (r *report) section(title string) {
	fmt.Fprintf(r.w, "\n%s\n", title)
	if r.page != nil {
		r.page.sections = append(r.page.sections, &chapter{title: title})
	}
}

// line prints text as it is.
func (r *report) line(text string) {
	fmt.Fprintln(r.w, text)
	if r.page != nil {
		s := r.page.last()
		s.text = append(s.text, text)
	}
}

// note prints what no figure says.
func (r *report) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(r.w, "  - "+text)
	if r.page != nil {
		s := r.page.last()
		s.notes = append(s.notes, text)
	}
}

// enter puts a figure on the page.
func (r *report) enter(e entry) {
	if r.page != nil {
		s := r.page.last()
		s.rows = append(s.rows, e)
	}
}

// headline puts a number at the head of the page. The last one of its kind stays: sizes ascend.
func (r *report) headline(h headline) {
	if r.page == nil {
		return
	}
	if i := slices.IndexFunc(r.page.headlines, func(x headline) bool { return x.kind == h.kind }); i >= 0 {
		r.page.headlines[i] = h
		return
	}
	r.page.headlines = append(r.page.headlines, h)
}

// progress says how far a long part is, beside the figures.
func (r *report) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// latency prints a figure of many samples. limit bounds the median; 0 is no limit.
func (r *report) latency(name string, t times, limit time.Duration, more string) {
	e := entry{name: name, measured: fmt.Sprintf("p50 %s, p95 %s (%d)", short(t.median()), short(t.at(0.95)), len(t)), more: more}
	if limit > 0 {
		e.held, e.met, e.share = "p50 <= "+short(limit), t.median() <= limit, float64(t.median())/float64(limit)
	}
	r.enter(e)
	if limit > 0 {
		more = r.verdict(t.median() <= limit, fmt.Sprintf("p50 <= %s", short(limit))) + "  " + more
	}
	fmt.Fprintf(r.w, "  %-62s p50 %9s  p95 %9s  n=%-5d %s\n", name, short(t.median()), short(t.at(0.95)), len(t), more)
}

// value prints a figure of one number. limit says what it is held against, "" nothing.
func (r *report) value(name, value string, met bool, limit, more string) {
	r.enter(entry{name: name, measured: value, held: limit, met: met, more: more})
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

// total prints how many of the limits are kept, and returns it in words.
func (r *report) total(took time.Duration) string {
	text := fmt.Sprintf("%d of %d targets met, in %s", r.judged-r.missed, r.judged, short(took))
	fmt.Fprintf(r.w, "\n%s\n", text)
	return text
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
