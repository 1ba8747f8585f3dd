package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/reconciler"
)

// forgetful is a server with a VIM kube-a.
type forgetful struct {
	found reconciler.FormerVIM
	asked []string // what would change something
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/jibe/v1/vims/kube-a/") {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"status": 404, "detail": "not found: there is no vims/kube-z.yaml"}`)
		return
	}
	if r.Method != http.MethodGet {
		f.asked = append(f.asked, r.Method+" "+r.URL.String())
	}
	_ = json.NewEncoder(w).Encode(f.found)
}

// ran are as many VNFs at a former cluster.
func ran(n int) []reconciler.FormerInstance {
	var all []reconciler.FormerInstance
	for i := range n {
		all = append(all, reconciler.FormerInstance{Instance: fmt.Sprintf("id-%d", i), Dir: fmt.Sprintf("instances/amf-%d", i), Was: "uid-1"})
	}
	return all
}

func TestVIMForgetShowsWhatItWouldForgetAndAsks(t *testing.T) {
	for name, c := range map[string]struct {
		found reconciler.FormerVIM
		args  []string
		says  []string
		fails string
		asks  string
	}{
		"another one answers": {
			found: reconciler.FormerVIM{VIM: "kube-a", Is: "uid 2", Instances: ran(2)},
			args:  []string{"--yes"},
			says:  []string{"VIM kube-a is uid 2 now", "instances/amf-0 (id-0), at uid-1", "forgotten: the former VIM kube-a, of 2 VNFs"},
			asks:  "POST /jibe/v1/vims/kube-a/forget?is=uid+2",
		},
		"none answers": {
			found: reconciler.FormerVIM{VIM: "kube-a", Unreachable: "connection refused", Instances: ran(1)},
			args:  []string{"--yes"},
			says:  []string{"VIM kube-a can't be reached, so that it can't be verified that it is gone: connection refused", "What runs there still isn't ended", "instances/amf-0 (id-0), at uid-1", "forgotten"},
			asks:  "POST /jibe/v1/vims/kube-a/forget?unreachable=true",
		},
		"without a terminal": {
			found: reconciler.FormerVIM{VIM: "kube-a", Unreachable: "connection refused", Instances: ran(1)},
			says:  []string{"can't be verified", "instances/amf-0"},
			fails: "nothing was forgotten: standard input is no terminal, so confirm with --yes",
		},
		"very many": {
			found: reconciler.FormerVIM{VIM: "kube-a", Is: "uid-2", Instances: ran(mostShown + 7)},
			args:  []string{"--yes"},
			says:  []string{"  and 7 more\n", fmt.Sprintf("of %d VNFs", mostShown+7)},
			asks:  "POST /jibe/v1/vims/kube-a/forget?is=uid-2",
		},
		"nothing": {
			found: reconciler.FormerVIM{VIM: "kube-a", Is: "uid-2"},
			args:  []string{"--yes"},
			says:  []string{"nothing to forget"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &forgetful{found: c.found}
			out, _, err := execute(t, f, append([]string{"vim", "forget", "kube-a"}, c.args...)...)
			if (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("it ends with %v, want %q", err, c.fails)
			}
			for _, want := range c.says {
				if !strings.Contains(out, want) {
					t.Errorf("it lacks %q:\n%s", want, out)
				}
			}
			if got := strings.Join(f.asked, " "); got != c.asks {
				t.Errorf("it asked %q, want %q", got, c.asks)
			}
		})
	}
}

func TestVIMForgetOfAnUnknownNameFails(t *testing.T) {
	f := &forgetful{}
	if _, _, err := execute(t, f, "vim", "forget", "kube-z", "--yes"); err == nil || !strings.Contains(err.Error(), "there is no vims/kube-z.yaml") || len(f.asked) > 0 {
		t.Errorf("it ends with %v, and asked %q", err, f.asked)
	}
	if _, _, err := execute(t, f, "vim", "forget"); err == nil {
		t.Error("it takes no name")
	}
}
