package params

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// reader collects what is wrong, and which values are secrets.
type reader struct {
	problems []string
	secrets  []string
	sections map[string]*fields
}

func (r *reader) wrong(path, format string, args ...any) {
	r.problems = append(r.problems, "params."+path+" "+fmt.Sprintf(format, args...))
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return errors.New(strings.Join(r.problems, "; "))
}

// unknown finds fields that nobody has asked for: without it, a misspelt one would be ignored
// in silence.
func (r *reader) unknown() {
	for _, path := range slices.Sorted(maps.Keys(r.sections)) {
		f := r.sections[path]
		for _, name := range slices.Sorted(maps.Keys(f.values)) {
			if !f.asked[name] {
				r.wrong(path+"."+name, "isn't known: correct its name, or leave it out (known here: %s)", strings.Join(slices.Sorted(maps.Keys(f.asked)), ", "))
			}
		}
	}
}

// fields is one object of the parameters. A value that is null counts as missing.
type fields struct {
	*reader
	path   string
	values map[string]any
	asked  map[string]bool
}

func (r *reader) section(path string, value any) *fields {
	if f := r.sections[path]; f != nil {
		return f
	}
	f := &fields{reader: r, path: path, asked: map[string]bool{}}
	if value != nil {
		values, ok := value.(map[string]any)
		if !ok {
			r.wrong(path, "must be an object with fields")
		}
		f.values = values
	}
	if r.sections == nil {
		r.sections = map[string]*fields{}
	}
	r.sections[path] = f
	return f
}

func (f *fields) there() bool { return f.values != nil }

func (f *fields) get(name string) any {
	f.asked[name] = true
	return f.values[name]
}

// sub returns an object that may be left out.
func (f *fields) sub(name string) *fields { return f.section(f.path+"."+name, f.get(name)) }

// must returns an object that may not be left out.
func (f *fields) must(name string) *fields {
	if f.there() && f.get(name) == nil {
		f.wrong(f.path+"."+name, "is missing")
	}
	return f.sub(name)
}

func (f *fields) text(name string, needed bool) string {
	switch v := f.get(name).(type) {
	case nil:
		if needed && f.there() {
			f.wrong(f.path+"."+name, "is missing")
		}
	case string:
		if v == "" && needed {
			f.wrong(f.path+"."+name, "is empty")
		}
		return v
	default:
		f.wrong(f.path+"."+name, "must be text")
	}
	return ""
}

func (f *fields) secret(name string) string {
	value := f.text(name, false)
	// A shorter one stands by chance in too many texts to be redacted.
	if len(value) >= 3 {
		f.secrets = append(f.secrets, value)
	}
	return value
}

func (f *fields) boolean(name string) bool {
	switch v := f.get(name).(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(v); err == nil {
			return b
		}
	}
	f.wrong(f.path+"."+name, "must be true or false")
	return false
}

func (f *fields) number(name string, otherwise, least, most int) int {
	var n int
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case float64:
		n = int(v)
		if float64(n) != v {
			n = least - 1
		}
	case string:
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			n = least - 1
		}
	default:
		n = least - 1
	}
	if n < least || n > most {
		f.wrong(f.path+"."+name, "must be a whole number from %d to %d", least, most)
		return otherwise
	}
	return n
}

func (f *fields) duration(name string, otherwise time.Duration) time.Duration {
	var d time.Duration
	switch v := f.get(name).(type) {
	case nil:
		return otherwise
	case float64:
		d = time.Duration(v * float64(time.Second))
	case string:
		var err error
		if d, err = time.ParseDuration(v); err != nil {
			d = 0
		}
	}
	if d < time.Second {
		f.wrong(f.path+"."+name, `must be a time of at least a second, such as "90s" or "5m"`)
		return otherwise
	}
	return d
}

func (f *fields) subnet(name string) string {
	value := f.text(name, false)
	if value == "" {
		return ""
	}
	for one := range strings.SplitSeq(value, ",") { // a second one where the cluster has IPv6, too
		if _, err := netip.ParsePrefix(one); err != nil {
			f.wrong(f.path+"."+name, "must be a subnet such as 10.244.0.0/16, not %q", value)
			break
		}
	}
	return value
}
