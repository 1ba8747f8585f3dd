// Package browser lets a test use the web page as a person does: in a real Chromium, against a
// real process. It owns starting the browser, what a person does in it, and what must never
// happen on any page (errors of the console, breaches of the Content-Security-Policy, dialogs);
// what a page shows is for each test to say.
package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/jibe-vnfm/jibe/test/kit"
	"github.com/jibe-vnfm/jibe/test/process"
	"github.com/jibe-vnfm/jibe/test/testenv"
)

// font is what pages are drawn with in tests: another one would have other pictures.
const font = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"

// program is Debian's Chromium without the windows of a browser, which cost as much as the page; the package has its name.
const program = "chromium-headless-shell"

// Browser is a running Chromium.
type Browser struct{ ctx context.Context }

// chromium is the one that all tests of a process share, each in tabs with cookies of their own: to start one takes
// seconds. [Main] ends it.
var chromium = sync.OnceValues(func() (*Browser, error) {
	// No folder of a test's own: some of Chromium's processes outlive it for a moment and still write there. Of the
	// folder that the client makes, it ends them first.
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, // root has no sandbox of Chromium's
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.Flag("hide-scrollbars", true), chromedp.WSURLReadTimeout(kit.Patience),
		chromedp.Flag("disable-features", "Translate,BlinkGenPropertyTrees")) // what the client leaves out
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator, chromedp.WithErrorf(ignoreLine))
	atEnd(func() error { end(); stop(); return nil })

	if err := chromedp.Do(ctx); err != nil {
		return nil, fmt.Errorf("start chromium: %w", err)
	}

	return &Browser{ctx}, nil
})

// New returns the Chromium of this process, which the first test that asks for it starts. It skips the test as
// [testenv.Real] does.
func New(t testing.TB) *Browser {
	t.Helper()
	need(t)

	b, err := chromium()
	if err != nil {
		t.Fatal(err)
	}

	return b
}

// need skips the test as [testenv.Real] does, and installs Chromium and the font.
func need(t testing.TB) {
	t.Helper()
	testenv.Program(t, program, program)

	if _, err := os.Stat(font); err != nil {
		testenv.Install(t, "DejaVuSans.ttf (a font)", "fonts-dejavu-core")
	}
}

// shared are the steps that end what tests share.
var shared struct {
	mu  sync.Mutex
	end []func() error
}

func atEnd(end func() error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.end = append(shared.end, end)
}

// Main runs the tests, ends what they have shared, and returns the exit status.
func Main(m *testing.M) (code int) {
	code = m.Run()
	for _, end := range slices.Backward(shared.end) {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}

	return code
}

// ignoreLine takes what the client of the browser says of events that it doesn't know.
func ignoreLine(string, ...any) {}

// View is how a page is looked at.
type View struct {
	Width, Height int64
	Dark, Phone   bool
	// NoScript switches JavaScript off.
	NoScript bool
}

// Views are those in which every page must be of use, by their names.
func Views() map[string]View {
	return map[string]View{
		"light": {Width: 1280, Height: 900},
		"dark":  {Width: 1280, Height: 900, Dark: true},
		"phone": {Width: 390, Height: 844, Phone: true},
	}
}

// Tab is one tab with cookies of its own. Its methods fail the test that it was made for.
type Tab struct {
	t   testing.TB
	ctx context.Context
	URL string // of the server

	seen *seen
}

// seen is what has happened in a tab and must not.
type seen struct {
	mu             sync.Mutex
	wrong, ignored []string
}

// Tab opens a tab for the server, with cookies of its own.
func (b *Browser) Tab(t testing.TB, s *process.Server, v View) *Tab {
	t.Helper()
	ctx, end := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	return open(ctx, t, s.URL, v)
}

// Another opens a second tab beside the first, with the same cookies.
func (p *Tab) Another() *Tab {
	p.t.Helper()
	ctx, end := chromedp.NewContext(p.ctx)
	p.t.Cleanup(end)
	return open(ctx, p.t, p.URL, View{})
}

// open makes the tab of a context.
func open(ctx context.Context, t testing.TB, url string, v View) *Tab {
	t.Helper()
	tab := &Tab{t: t, ctx: ctx, URL: url, seen: &seen{}}
	if err := chromedp.Listen(ctx, tab.heard); err != nil {
		t.Fatalf("open a tab: %v", err)
	}
	if v.Width == 0 {
		v.Width, v.Height = 1280, 900
	}
	scheme := "light"
	if v.Dark {
		scheme = "dark"
	}
	call(tab, log.Enable, cdp.Empty{})
	call(tab, network.Enable, network.EnableParams{})
	call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: v.Width, Height: v.Height, DeviceScaleFactor: 1, Mobile: v.Phone})
	call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}})
	// Tests run side by side, and only one of their tabs would have the focus.
	call(tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
	call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: v.NoScript})
	return tab
}

// call carries a command of the protocol out.
func call[P, R any](p *Tab, cmd cdp.Command[P, R], params P) R {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, kit.Patience)
	defer cancel()
	r, err := chromedp.Call(ctx, cmd, params)
	if err != nil {
		p.t.Fatalf("%s: %v", cmd.Method, err)
	}
	return r
}

// For is the same tab for another test, such as a subtest.
func (p *Tab) For(t testing.TB) *Tab { return &Tab{t: t, ctx: p.ctx, URL: p.URL, seen: p.seen} }

// heard notes what must not happen.
func (p *Tab) heard(ev any) {
	text := ""
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		if ev.Type == runtime.ConsoleAPICalledTypeError || ev.Type == runtime.ConsoleAPICalledTypeWarning || ev.Type == runtime.ConsoleAPICalledTypeAssert {
			for _, a := range ev.Args {
				text += " " + string(a.Value) + a.Description
			}
			text = "console:" + text
		}
	case *runtime.EventExceptionThrown:
		text = "exception: " + fmt.Sprintf("%s (%s:%d)", ev.ExceptionDetails.Text, ev.ExceptionDetails.URL, ev.ExceptionDetails.LineNumber)
	case *log.EventEntryAdded:
		if ev.Entry.Level == log.EntryLevelError || ev.Entry.Source == log.EntrySourceSecurity {
			text = fmt.Sprintf("%s: %s (%s)", ev.Entry.Source, ev.Entry.Text, ev.Entry.URL)
		}
	case *page.EventJavascriptDialogOpening:
		text = "dialog: " + ev.Message
		go func() { // a command can't be given from here
			_, _ = chromedp.Call(p.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	}
	if text != "" {
		p.seen.mu.Lock()
		defer p.seen.mu.Unlock()
		p.seen.wrong = append(p.seen.wrong, text)
	}
}

// Expect says that what has the text in it may stand in the console: the browser itself writes a
// line there for each answer of 400 and above.
func (p *Tab) Expect(text string) {
	p.seen.mu.Lock()
	defer p.seen.mu.Unlock()
	p.seen.ignored = append(p.seen.ignored, text)
}

// Hears waits until what has the text in it stands in the console, where it may then stand.
func (p *Tab) Hears(text string) {
	p.t.Helper()
	p.Expect(text)
	kit.Eventually(p.t, func() error {
		p.seen.mu.Lock()
		defer p.seen.mu.Unlock()
		if !slices.ContainsFunc(p.seen.wrong, func(line string) bool { return strings.Contains(line, text) }) {
			return fmt.Errorf("the console doesn't say %q: %q", text, p.seen.wrong)
		}
		return nil
	})
}

// Clean fails the test where an error stood in the console, the policy was broken, or a dialog
// opened.
func (p *Tab) Clean() {
	p.t.Helper()
	p.Eval("1") // events come in order: what the page has done was told before this answer
	p.seen.mu.Lock()
	defer p.seen.mu.Unlock()
	for _, text := range p.seen.wrong {
		if !slices.ContainsFunc(p.seen.ignored, func(part string) bool { return strings.Contains(text, part) }) {
			p.t.Errorf("the page must not: %s", text)
		}
	}
	p.seen.wrong = nil
}

// do carries actions out, bounded by [kit.Patience].
func (p *Tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, kit.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%s: %v\nat %s", what, err, p.where())
	}
}

func (p *Tab) where() string {
	text, err := p.try(`location.href + "\n" + document.body.innerText.slice(0, 2000)`, 10*time.Second)
	if err != nil {
		return err.Error()
	}
	return text
}

// try is the value of an expression, in JSON, where it comes in time.
func (p *Tab) try(expression string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(p.ctx, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression, chromedp.EvalAwaitPromise))
	return string(value), err
}

// Open goes to a path of the server, or to a URL, and returns the status of the answer. A page that took the server too
// long is opened again, as a person would: on a busy machine each may.
func (p *Tab) Open(path string) (status int) {
	p.t.Helper()
	if strings.HasPrefix(path, "/") {
		path = p.URL + path
	}

	err := kit.Poll(p.ctx, kit.Patience, func() error {
		ctx, cancel := context.WithTimeout(p.ctx, kit.Patience)
		defer cancel()

		answer, err := chromedp.RunResponse(ctx, chromedp.Navigate(path))
		if err != nil {
			return kit.Final(err)
		}
		if status = int(answer.Status); status == http.StatusServiceUnavailable {
			p.Expect("status of 503")
			return errors.New(answer.StatusText)
		}

		return nil
	})
	if err != nil {
		p.t.Fatalf("open %s: %v\nat %s", path, err, p.where())
	}

	return status
}

// Login logs in by the form, with a token, and returns when the page that it leads to is there.
func (p *Tab) Login(token string) {
	p.t.Helper()
	p.Open("/ui/login")
	p.Type("#token", token)
	p.Press("main button.primary")
	p.Eventually(`location.pathname !== "/ui/login" && document.readyState === "complete"`, true)
}

// Type types text into a field, in place of what stands there.
func (p *Tab) Type(selector, text string) {
	p.t.Helper()
	p.do("type into "+selector, chromedp.Clear(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// Choose chooses from a list, by its name and the value. The list has the focus then, as where a person chooses: so a live
// page leaves the form as it is until its button is pressed.
func (p *Tab) Choose(name, value string) {
	p.t.Helper()
	p.Eval(fmt.Sprintf(`(list => { list.focus(); list.value = %q; return 1 })(document.querySelector("select[name=%s]"))`, value, name))
}

// press clicks on an element where a person could, and says why not otherwise. All of it is one task of the browser: a
// live page puts other elements in the place of those that it has, and a click that is told the browser in several
// steps may then be one on nothing.
const press = `(e => {
	if (!e || !e.checkVisibility()) return "it isn't to be seen";
	if (e.disabled) return "it is disabled";
	e.scrollIntoView({block: "center", behavior: "instant"});
	const at = e.getClientRects()[0], top = document.elementFromPoint(at.x + at.width / 2, at.y + at.height / 2);
	if (!e.contains(top)) return "it is covered by " + top?.outerHTML.slice(0, 200);
	e.focus();
	e.click();
	return "";
})(document.querySelector(%s))`

// Press clicks on what leads to another page, and returns when that is loaded.
func (p *Tab) Press(selector string) {
	p.t.Helper()
	name, err := json.Marshal(selector)
	if err != nil {
		p.t.Fatal(err)
	}
	click := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		why, err := chromedp.Evaluate[string](fmt.Sprintf(press, name))(ctx, t)
		if err == nil && why != "" {
			err = errNotPressed(why)
		}
		return err
	})
	err = kit.Poll(p.ctx, kit.Patience, func() error {
		ctx, cancel := context.WithTimeout(p.ctx, kit.Patience)
		defer cancel()
		_, err := chromedp.RunResponse(ctx, click)
		if err != nil && !errors.As(err, new(errNotPressed)) {
			err = kit.Final(err) // it was pressed, and once is enough
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("press %s: %v\nat %s", selector, err, p.where())
	}
}

// errNotPressed says why nothing was clicked.
type errNotPressed string

func (e errNotPressed) Error() string { return string(e) }

// Text is what a person reads in the first such element.
func (p *Tab) Text(selector string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, kit.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS(selector)))
	if err != nil {
		p.t.Fatalf("text of %s: %v\nat %s", selector, err, p.where())
	}
	return strings.TrimSpace(text)
}

// Eval is the value of an expression of JavaScript, in JSON. It works with JavaScript off, too.
func (p *Tab) Eval(expression string) string {
	p.t.Helper()
	value, err := p.try(expression, kit.Patience)
	if err != nil {
		p.t.Fatalf("%.200s: %v\nat %s", expression, err, p.where())
	}
	return value
}

// Into decodes the value of an expression.
func (p *Tab) Into(expression string, v any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.Eval(expression)), v); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

// Eventually waits until an expression has a value.
func (p *Tab) Eventually(expression string, want any) {
	p.t.Helper()
	text, err := json.Marshal(want)
	if err != nil {
		p.t.Fatal(err)
	}
	err = kit.Poll(p.t.Context(), kit.Patience, func() error {
		value, err := p.try(expression, kit.Patience)
		if err == nil && value != string(text) {
			err = fmt.Errorf("%s is %s, want %s", expression, value, text)
		}
		return err
	})
	if err != nil {
		p.t.Fatalf("%v\nat %s", err, p.where())
	}
}

// Keys types keys, wherever the focus is.
func (p *Tab) Keys(keys string) {
	p.t.Helper()
	p.do("type keys", chromedp.KeyEvent(keys))
}

// Cookies are the cookies, by name.
func (p *Tab) Cookies() map[string]*network.Cookie {
	p.t.Helper()
	all := map[string]*network.Cookie{}
	for _, c := range call(p, network.GetCookies, network.GetCookiesParams{}).Cookies {
		all[c.Name] = c
	}
	return all
}

// Screenshot is a picture of what is seen, PNG. whole is the whole page, however long.
func (p *Tab) Screenshot(whole bool) []byte {
	p.t.Helper()
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	if whole {
		params.CaptureBeyondViewport = &whole
	}
	return call(p, page.CaptureScreenshot, params).Data
}
