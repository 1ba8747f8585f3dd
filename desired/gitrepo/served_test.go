package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jibe-vnfm/jibe/desired/gitrepo/objects"
	"github.com/jibe-vnfm/jibe/internal/git"
	"github.com/jibe-vnfm/jibe/test/kit"
)

// served serves the repository as a client sees it who may not have Jibe's own refs.
func served(t testing.TB, r *Repo) string {
	t.Helper()
	srv := httptest.NewServer(Served{Dir: r.opt.Dir, Log: r.log})
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestRefsThatAreJibesOwnAreNotServed(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	r.Note(r.Head(), "done")
	kit.Until(t, "the note is written", func() bool {
		at, err := git.ReadRef(r.opt.Dir, objects.NotesRef)
		return err == nil && at != ""
	})
	secret := runGit(t, r.opt.Dir, "commit-tree", "HEAD^{tree}", "-m", "nobody's")
	own := []string{"refs/jibe/remote/branch", "refs/jibe/packages/x", "refs/jibe/upstream/y", "refs/jibe/proposed/z", "refs/jibe/kept", fetchedNotes}
	for _, ref := range own {
		runGit(t, r.opt.Dir, "update-ref", ref, secret)
	}
	url := served(t, r)
	for _, version := range []string{"0", "1", "2"} {
		out := runGit(t, "", "-c", "protocol.version="+version, "ls-remote", url)
		if !strings.Contains(out, "refs/heads/main") || !strings.Contains(out, objects.NotesRef) {
			t.Errorf("version %s doesn't show the branch and the notes: %s", version, out)
		}
		if strings.Contains(out, "refs/jibe/") || strings.Contains(out, fetchedNotes) {
			t.Errorf("version %s shows %s", version, out)
		}
		if out, err := tryGit("", "-c", "protocol.version="+version, "ls-remote", "--exit-code", url, "refs/jibe/*"); err == nil {
			t.Errorf("version %s finds %s", version, out)
		}
	}
	dir := clone(t, r)
	for _, version := range []string{"0", "1"} { // version 2 gives any object to who knows its name
		empty := t.TempDir() // a clone by path has all objects
		runGit(t, empty, "init", "-q")
		if out, err := tryGit(empty, "-c", "protocol.version="+version, "fetch", url, secret); err == nil {
			t.Errorf("version %s gives an object that no visible ref has: %s", version, out)
		}
	}
	for _, ref := range own[:5] {
		if out, err := tryGit(dir, "push", url, "HEAD:"+ref); err == nil {
			t.Errorf("%s was pushed: %s", ref, out)
		}
	}
	backup := httptest.NewServer(Served{Dir: r.opt.Dir, OwnRefs: true, Log: r.log})
	t.Cleanup(backup.Close)
	if out := runGit(t, "", "ls-remote", backup.URL); !strings.Contains(out, "refs/jibe/packages/x") {
		t.Errorf("a backup lacks the pins: %s", out)
	}
}

func TestOnlyTheFourRequestsOfTheSmartProtocolAreServed(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	url := served(t, r)
	for _, request := range []string{
		"GET /info/refs", "GET /info/refs?service=", "GET /info/refs?service=git-upload-archive", "GET /info/refs?service=x&service=git-upload-pack",
		"POST /info/refs?service=git-upload-pack", "GET /git-upload-pack", "GET /git-receive-pack", "PUT /git-receive-pack", "POST /git-upload-archive",
		"GET /HEAD", "GET /config", "GET /objects/info/packs", "GET /jibe/born", "GET /hooks/pre-receive", "GET /refs/heads/main",
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNotFound {
			t.Errorf("%s is answered with %d", request, res.StatusCode)
		}
	}
	dir := filepath.Join(t.TempDir(), "partial")
	runGit(t, "", "clone", "-q", "--filter=blob:none", url, dir)
	if out := runGit(t, dir, "cat-file", "-p", "HEAD:"+shardDir(testID(1))+"/vnf.yaml"); !strings.Contains(out, testID(1)) {
		t.Errorf("a partial clone can't fetch what it lacks: %s", out)
	}
}

func TestOnlyBranchesAndTagsArePushedAndNothingThatTheyLedToIsLost(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	dir := clone(t, r)
	url := served(t, r)
	runGit(t, dir, "push", "-q", url, "HEAD:refs/tags/v1", "HEAD:refs/heads/side")
	put(t, dir, "a.txt", []byte("x"))
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "Next")
	for _, push := range [][]string{
		{"HEAD:refs/replace/" + runGit(t, dir, "rev-parse", "HEAD^")}, {"HEAD:refs/notes/x"}, {"HEAD:refs/for/main"}, {"HEAD:refs/changes/1"},
		{"--force", "HEAD:refs/tags/v1"}, {":refs/tags/v1"}, {":refs/heads/side"}, {":refs/heads/main"},
	} {
		for _, to := range []string{url, r.opt.Dir} {
			if out, err := tryGit(dir, append([]string{"push", to}, push...)...); err == nil {
				t.Errorf("push %v to %s is taken: %s", push, to, out)
			}
		}
	}
	runGit(t, dir, "push", "-q", url, "HEAD:refs/heads/side")
	runGit(t, dir, "reset", "-q", "--hard", "HEAD^")
	runGit(t, dir, "commit", "-q", "--allow-empty", "-m", "Another")
	if out, err := tryGit(dir, "push", "--force", url, "HEAD:refs/heads/side"); err == nil || !strings.Contains(out, "non-fast-forward") {
		t.Errorf("a branch was rewritten: %v %s", err, out)
	}
}

// object is one of a pack that a test makes: said is the size that its header gives.
type object struct {
	kind    int
	said    int64
	ofs     int64  // back to the base, of a delta by place
	base    []byte // of a delta by name
	content []byte
}

// packOf makes a pack, as git does; its objects needn't make sense.
func packOf(objects ...object) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "PACK\x00\x00\x00\x02")
	_ = binary.Write(&b, binary.BigEndian, uint32(len(objects)))
	for _, o := range objects {
		size := o.said
		c := byte(o.kind<<4) | byte(size&15)
		for size >>= 4; size > 0; size >>= 7 {
			b.WriteByte(c | 0x80)
			c = byte(size & 0x7f)
		}
		b.WriteByte(c)
		if o.kind == packOfsDelta {
			b.Write(ofsBytes(o.ofs))
		}
		b.Write(o.base)
		z := zlib.NewWriter(&b)
		_, _ = z.Write(o.content)
		_ = z.Close()
	}
	sum := sha1.Sum(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

func ofsBytes(n int64) []byte {
	out := []byte{byte(n & 0x7f)}
	for n >>= 7; n > 0; n >>= 7 {
		n--
		out = append([]byte{byte(n&0x7f) | 0x80}, out...)
	}
	return out
}

// deltaTo is a delta of a base of some size to a result of another.
func deltaTo(base, result uint64) []byte {
	return append(binary.AppendUvarint(binary.AppendUvarint(nil, base), result), 0x01, 'x')
}

func TestAPackIsMeasuredBeforeGitReadsIt(t *testing.T) {
	t.Parallel()

	limits := packLimits{Objects: 10, Object: 1000, Inflated: 3000, Deltas: 1500, Depth: 3}
	blob := func(n int) object { return object{kind: 3, said: int64(n), content: make([]byte, n)} }
	delta := func(result uint64) object {
		d := deltaTo(5, result)
		return object{kind: packRefDelta, base: make([]byte, 20), said: int64(len(d)), content: d}
	}
	// A chain of deltas, each of the one before it.
	chain := func(n int) []object {
		out := []object{blob(5)}
		last := int64(len(packOf(out[0]))) - 32
		for range n {
			d := deltaTo(5, 5)
			o := object{kind: packOfsDelta, ofs: last, said: int64(len(d)), content: d}
			last = int64(len(packOf(append(out, o)...)) - len(packOf(out...)))
			out = append(out, o)
		}
		return out
	}
	many := make([]object, 11)
	for i := range many {
		many[i] = blob(1)
	}
	tests := map[string]struct {
		pack   []byte
		refuse string // "" is none
	}{
		"small ones":                {packOf(blob(10), blob(1000), delta(1000)), ""},
		"a chain that is short":     {packOf(chain(3)...), ""},
		"a chain that is long":      {packOf(chain(4)...), "chain of more than 3 deltas"},
		"too many":                  {packOf(many...), "11 objects, and may have 10"},
		"a large one":               {packOf(blob(1001)), "has 1001 bytes, and may have 1000"},
		"many that are large":       {packOf(blob(900), blob(900), blob(900), blob(900)), "inflate to more than 3000 bytes"},
		"a delta to a large one":    {packOf(delta(1 << 40)), "has 1099511627776 bytes, and may have 1000"},
		"deltas to many":            {packOf(delta(800), delta(800)), "deltas make more than 1500 bytes"},
		"one larger than it says":   {packOf(object{kind: 3, said: 5, content: make([]byte, 900)}), "isn't of the size"},
		"one smaller than it says":  {packOf(object{kind: 3, said: 900, content: make([]byte, 5)}), "ends too early"},
		"a delta of nothing":        {packOf(object{kind: packOfsDelta, ofs: 3, said: 4, content: deltaTo(1, 1)}), "delta of nothing"},
		"a delta of what follows":   {packOf(blob(3), object{kind: packOfsDelta, ofs: 0, said: 4, content: deltaTo(1, 1)}), "delta of nothing"},
		"a size beyond all bounds":  {append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xb0"), bytes.Repeat([]byte{0x80}, 20)...), "beyond all bounds"},
		"an unknown type":           {packOf(object{kind: 5, said: 1, content: []byte("x")}), "unknown type 5"},
		"another version":           {[]byte("PACK\x00\x00\x00\x09\x00\x00\x00\x00"), "version 2 or 3"},
		"one that ends in between":  {packOf(blob(900))[:20], "ends too early"},
		"one that ends before that": {packOf(blob(900))[:12], "ends too early"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := &pushHead{}
			if _, err := h.readFrom("0000", tt.pack); err != nil {
				t.Fatal(err)
			}
			err := measure(h.rest, limits)
			switch {
			case tt.refuse == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refuse != "" && (err == nil || !strings.Contains(err.Error(), tt.refuse)):
				t.Errorf("got %v, want %q", err, tt.refuse)
			}
		})
	}
}

// readFrom reads a push of a head and a pack.
func (h *pushHead) readFrom(head string, pack []byte) (*pushHead, error) {
	read, err := readPushHead(io.MultiReader(strings.NewReader(head), bytes.NewReader(pack)))
	*h = *read
	return read, err
}

func TestAPackThatInflatesToTenGigabytesIsRefusedAndLeavesNothing(t *testing.T) {
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	url := served(t, r)
	head := r.Head()
	before := sizeOf(t, r.opt.Dir)
	for name, bomb := range map[string][]byte{
		"a blob": packOf(object{kind: 3, said: 10 << 30, content: make([]byte, 1<<20)}),
		"deltas": packOf(object{kind: packRefDelta, base: make([]byte, 20), said: int64(len(deltaTo(1, 10<<30))), content: deltaTo(1, 10<<30)}),
	} {
		for _, branch := range []string{"main", "side"} {
			old := head
			if branch == "side" {
				old = git.ZeroHash
			}
			line := old + " " + strings.Repeat("ab", 20) + " refs/heads/" + branch + "\x00 report-status side-band-64k"
			body := fmt.Sprintf("%04x%s0000", len(line)+4, line) + string(bomb)
			res, err := http.Post(url+"/git-receive-pack", "application/x-git-receive-pack-request", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			said, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || !strings.Contains(string(said), "has 10737418240 bytes, and may have 536870912") || !strings.Contains(string(said), "ng refs/heads/"+branch) {
				t.Errorf("%s on %s: %d %v %q", name, branch, res.StatusCode, err, said)
			}
		}
	}
	if after := sizeOf(t, r.opt.Dir); after != before {
		t.Errorf("the repository had %d bytes and has %d", before, after)
	}
}

func TestAPushThatIsTooLargeTellsItsClientWhy(t *testing.T) {
	kit.Long(t)
	t.Parallel()

	r := withHook(t)
	mustWrite(t, r, testID(1), shardDir(testID(1)), 1)
	url := served(t, r)
	dir := clone(t, r)
	f, err := os.Create(filepath.Join(dir, "zeros"))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(defaultPackLimits().Object + 1); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	runGit(t, dir, "add", "-A")
	runGit(t, dir, "commit", "-q", "-m", "Zeros")
	if out, err := tryGit(dir, "push", url, "HEAD:refs/heads/side"); err == nil || !strings.Contains(out, "keep large files elsewhere") {
		t.Errorf("got %v: %s", err, out)
	}
}

// sizeOf adds up the files of a folder.
func sizeOf(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func FuzzAPush(f *testing.F) {
	f.Add([]byte("0000"))
	line := git.ZeroHash + " " + strings.Repeat("ab", 20) + " refs/heads/x\x00 report-status push-options"
	head := fmt.Sprintf("%04x%s0000", len(line)+4, line)
	f.Add([]byte(head + "0008a=b\n0000" + string(packOf(object{kind: 3, said: 3, content: []byte("abc")}))))
	f.Add([]byte(head + string(packOf(object{kind: packRefDelta, base: make([]byte, 20), said: 4, content: deltaTo(1, 1)}))))
	f.Fuzz(func(t *testing.T, body []byte) {
		h, err := readPushHead(bytes.NewReader(body))
		if err == nil && h.pack {
			err = measure(h.rest, packLimits{Objects: 100, Object: 10_000, Inflated: 100_000, Deltas: 100_000, Depth: 10})
		}
		if err != nil {
			w := httptest.NewRecorder()
			h.refuse(w, err)
			if w.Code != http.StatusOK && w.Code != http.StatusBadRequest {
				t.Errorf("%d", w.Code)
			}
		}
	})
}
