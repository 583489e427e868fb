package padlockweb_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/reads"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/observe/padlockweb"
	"github.com/padlock-go/padlock/stores/memstore"
)

// A lock is on all pages while it is held, and on none after that.
func TestPages(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	held := s.lock("shop/orders", "nightly")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"", "?q=NIGHT", "?q=" + host, "name?n=nightly", "api/locks", "api/locks?n=nightly"}
	for _, path := range paths {
		if a := s.get(path); a.StatusCode != http.StatusOK || !strings.Contains(a.text, "job of nightly") {
			t.Errorf("%q: %d, %s", path, a.StatusCode, a.text)
		}
	}
	for _, path := range []string{"?q=night", "name?n=nightly", "api/locks?q=night"} {
		if a := s.get(path); strings.Contains(a.text, "shop/orders") {
			t.Errorf("%q shows other names", path)
		}
	}
	for _, k := range held {
		if err := k.Release(); err != nil {
			t.Fatal(err)
		}
	}
	s.sample()
	for _, path := range []string{"", "api/locks", "?q=" + host} {
		if a := s.get(path); strings.Contains(a.text, "job of nightly") {
			t.Errorf("%q still shows the lock", path)
		}
	}
	if a := s.get("name?n=nightly"); !strings.Contains(a.text, `badge free`) || !strings.Contains(a.text, "Past holds") {
		t.Errorf("the page of the name does not show that it is free, and its past: %s", a.text)
	}
}

// The table and the page of a name say who asks the holder. The question is no row.
func TestAskedIsShown(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	held := s.lock("nightly")
	for _, path := range []string{"", "name?n=nightly"} {
		if a := s.get(path); strings.Contains(a.text, "finish early") {
			t.Errorf("%s, before the question: %s", path, a.text)
		}
	}
	q, err := s.locker.Ask(t.Context(), "nightly", "deploy of v2")
	if err != nil {
		t.Fatal(err)
	}
	s.sample()
	for _, path := range []string{"", "name?n=nightly"} {
		a := s.get(path)
		by := fmt.Sprintf("by %s:%d, since", q.By.Host, q.By.PID)
		if !strings.Contains(a.text, by) || !strings.Contains(a.text, ": deploy of v2<") || strings.Count(a.text, "data-name=") > 1 {
			t.Errorf("%s: %s", path, a.text)
		}
	}
	held[0].Release()
	s.lock("nightly")
	if a := s.get(""); strings.Contains(a.text, "deploy of v2") {
		t.Errorf("the next holder is asked: %s", a.text)
	}
}

// The pages say what they do not know.
func TestUnknownIsNotFree(t *testing.T) {
	l := padlock.New(broken{memstore.New()})
	defer l.Close(t.Context())
	w := padlockweb.Handler(l, padlockweb.ReadWithoutToken())
	defer w.Close()
	s := &site{t: t, locker: l, web: w}
	server := httptest.NewServer(w)
	defer server.Close()
	s.url = server.URL + "/"
	for _, want := range []struct{ path, text string }{
		{"", "It is not known what is held."}, {"name?n=x", "The store cannot tell whether it is held."},
	} {
		if a := s.get(want.path); !strings.Contains(a.text, want.text) || strings.Contains(a.text, "Nothing is held") {
			t.Errorf("%q does not say %q: %s", want.path, want.text, a.text)
		}
	}
	if a := s.get("readyz"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("/readyz is %d", a.StatusCode)
	}
	if a := s.get("healthz"); a.StatusCode != http.StatusOK {
		t.Errorf("/healthz is %d", a.StatusCode)
	}
	if a := s.get("api/locks"); a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.text, `"names":[]`) {
		t.Errorf("/api/locks is %d: %s", a.StatusCode, a.text)
	}
}

// The Handler works below any path.
func TestMounted(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)))
	mux := http.NewServeMux()
	mux.Handle("/ops/locks/", http.StripPrefix("/ops/locks", s.web))
	mux.Handle("/ops/locks", http.StripPrefix("/ops/locks", s.web))
	server := httptest.NewServer(mux)
	defer server.Close()
	s.url = server.URL
	if a := s.get("/ops/locks"); a.Header.Get("Location") != "./locks/" {
		t.Errorf("without the slash: %d, %q", a.StatusCode, a.Header.Get("Location"))
	}
	if a := s.get("/ops/locks/", header("Accept", "text/html")); a.Header.Get("Location") != "login" {
		t.Errorf("without a login: %d, %q", a.StatusCode, a.Header.Get("Location"))
	}
	a := s.ask(http.MethodPost, "/ops/locks/login", form("token", reader))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	jar.SetCookies(a.Request.URL, a.Cookies())
	for path, want := range map[string]int{"/ops/locks/name": 1, "/ops/": 0} {
		at := *a.Request.URL
		at.Path = path
		if cookies := jar.Cookies(&at); len(cookies) != want {
			t.Errorf("%s gets %v, %d", path, cookies, a.StatusCode)
		}
	}
	if a := s.get("/ops/locks/style.css"); a.StatusCode != http.StatusOK || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/css") {
		t.Errorf("the style is %d, %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
}

// hostile are names that try to break out of the page, of JSON, of the figures and of the log.
var hostile = []string{
	"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "new\nline", "carriage\rreturn", "\x1b[31mred\x1b[0m", "nul\x00",
	"\xff\xfe not text", "right to left \u202e", `quote"} 1`, "a&b=c#d%00", "javascript:alert(1)", "event: bye\n\ndata: x",
}

// ownAddress matches the addresses to which pages may lead.
var ownAddress = regexp.MustCompile(`^(\./|name\?|host\?|break\?|jobs(\?|$)|api/locks$|metrics$|login$|logout$|break$|live\.js$|style\.css$|icon\.svg$|#main$)`)

var addresses = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// Names and labels of others do no harm on a page, in JSON, in figures and in the log.
func TestHostileNames(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak(), padlockweb.History(past))
	s.lock(hostile...)
	for _, name := range hostile {
		text := strings.ToValidUTF8(name, "?") // as a record keeps it
		record(t, past, history.Run{Name: name, Host: text, Label: text, Reason: text, Signal: text, Exit: 1, Start: time.Now(), End: time.Now(), Slot: -1})
	}
	raw := regexp.MustCompile(`(?i)<script>alert|<img src=x`)
	check := func(path string) string {
		t.Helper()
		text := s.get(path, with(breaker)).text
		if raw.MatchString(text) {
			t.Errorf("%q has markup of a name: %s", path, text)
		}
		for _, found := range addresses.FindAllStringSubmatch(text, -1) {
			if !ownAddress.MatchString(found[1]) {
				t.Errorf("%q leads to %q", path, found[1])
			}
		}
		if i := strings.IndexFunc(text, func(c rune) bool {
			return c != '\n' && c != '\t' && (unicode.IsControl(c) || c == '\u202e' || c == unicode.ReplacementChar)
		}); i >= 0 {
			t.Errorf("%q has a control character: %q", path, text[max(0, i-40):i+10])
		}
		return text
	}
	page := check("")
	if n := strings.Count(page, " data-name="); n != len(hostile) {
		t.Errorf("%d rows, want %d", n, len(hostile))
	}
	if n := strings.Count(check("jobs"), "data-job="); n != len(hostile) {
		t.Errorf("%d jobs, want %d", n, len(hostile))
	}
	for _, name := range hostile {
		check("jobs?" + form("q", name, "since", name, "failed", name))
		check("name?" + form("n", name, "q", name, "since", name, "failed", name))
		if text := check("name?" + form("n", name)); !strings.Contains(text, "It is held by 1 holder.") {
			t.Errorf("the page of %q does not find it", name)
		}
		check("break?" + form("n", name))
		check("?" + form("q", name))
		_, next := s.events("view=name&" + form("n", name))
		if event, data := next(); event != "locks" || !strings.Contains(data, "It is held by 1 holder.") {
			t.Errorf("the first event of %q is %q: %s", name, event, data)
		}
		s.ask(http.MethodPost, "break", form("n", name, "fence", "1", "reason", name), with(shopBreak))
		reply := s.ask(http.MethodPost, "break?"+form("n", name), form("fence", fmt.Sprint(s.fence(name)), "reason", "test\n\x1b of "), with(breaker))
		if reply.StatusCode != http.StatusOK {
			t.Errorf("%q cannot be broken: %d", name, reply.StatusCode)
		}
	}
	for _, record := range s.log.lines(t) { // each line is one JSON object
		if record["msg"] != "break" && record["msg"] != "refused" {
			t.Errorf("a forged record: %v", record)
		}
	}
}

// JSON has every name as it is.
func TestHostileNamesInJSON(t *testing.T) {
	s := newSite(t, padlockweb.ReadWithoutToken())
	s.lock(hostile...)
	var listed struct {
		Names []struct {
			Name  string
			Bytes []byte `json:"name_base64"`
		}
	}
	if err := json.Unmarshal([]byte(s.get("api/locks").text), &listed); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, l := range listed.Names {
		if l.Bytes != nil {
			l.Name = string(l.Bytes)
		}
		found[l.Name] = true
	}
	for _, name := range hostile {
		if !found[name] {
			t.Errorf("%q is missing", name)
		}
	}
}

// Prometheus's own program accepts the figures, with hostile names too.
func TestFigures(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("promtool is missing; it is in Debian's package prometheus")
		}
		t.Skip("promtool is missing; it is in Debian's package prometheus")
	}
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.History(past), padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken())
	held := s.lock(append([]string{"shop/a", "other/b", "\xfe:1", "\xff:1", "\x1b[2J:1"}, hostile...)...)
	held[0].Release()
	s.sample()
	for _, name := range append([]string{"shop/a"}, hostile...) {
		record(t, past, history.Run{Name: name, Start: time.Now(), End: time.Now(), Slot: -1})
	}
	for _, token := range []string{"", shopOnly} {
		text := s.get("metrics", with(token)).text
		cmd := exec.Command(promtool, "check", "metrics")
		cmd.Stdin = strings.NewReader(text)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s\n%s", err, out, text)
		}
		for line, want := range map[string]bool{
			`padlock_build_info{version="`:                               true,
			`padlock_store_up{store="memory"} 1`:                         true,
			`padlock_sampled_holds{store="memory",group="other"} 1`:      token == "",
			`padlock_sampled_holds{store="memory",group="\\xfe"} 1`:      token == "",
			`padlock_sampled_holds{store="memory",group="\\xff"} 1`:      token == "",
			`padlock_sampled_holds{store="memory",group="\\x1b[2J"} 1`:   token == "",
			`padlock_run_last_success_timestamp_seconds{name="shop/a"} `: true,
			`padlock_run_last_success_timestamp_seconds{name="new\\n`:    token == "",
		} {
			if strings.Contains(text, "\n"+line) != want {
				t.Errorf("%q: the figures have %s: %v, want %v\n%s", token, line, !want, want, text)
			}
		}
	}
}

func record(t *testing.T, log *history.Log, r history.Run) {
	t.Helper()
	if r.ID == "" {
		r.ID = history.NewID(r.Start, r.Skipped)
	}
	w := log.Writer()
	w.Put(r)
	if err := w.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// The page of a name shows its recorded runs.
func TestRuns(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	s := newSite(t, padlockweb.History(past), padlockweb.ReadWithoutToken())
	s.lock("nightly")
	began := time.Now().Add(-time.Hour)
	record(t, past, history.Run{
		Name: "nightly", Start: began, End: began.Add(90 * time.Second), Exit: 3, Host: "web-3", Slot: -1,
		Asked: began.Add(30 * time.Second), AskedBy: driver.Holder{Host: "ops", PID: 3, Label: "deploy of v2"},
	})
	record(t, past, history.Run{Name: "nightly", Start: began.Add(time.Minute), Skipped: true, Reason: "held", Slot: -1, By: []driver.Holder{{Host: "web-4", PID: 7}}})
	host, _ := os.Hostname()
	record(t, past, history.Run{Name: "nightly", Start: time.Now(), Host: host, PID: os.Getpid(), Slot: -1})
	text := s.get("name?n=nightly").text
	for _, want := range []string{"badge failure", "exit status 3, asked after 30 s by ops:3 (deploy of v2)", "1 min 30 s", "badge skipped", "held by web-4:7", "badge running"} {
		if !strings.Contains(text, want) {
			t.Errorf("the runs lack %q: %s", want, text)
		}
	}
}

// The script is short and the pages have no inline script or style, as the Content-Security-Policy
// demands.
func TestNothingInline(t *testing.T) {
	s := newSite(t, padlockweb.Accept(tokens(t)), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak(), padlockweb.History(history.Open(t.TempDir(), "", nil)))
	s.lock("a")
	if n := strings.Count(s.get("live.js").text, "\n"); n < 50 || n >= 260 {
		t.Errorf("the script has %d lines", n)
	}
	inline := regexp.MustCompile(`<style|style=|<script[^>]*>[^<]|\son\w+=`)
	for _, path := range []string{"", "jobs", "name?n=a", "login", "break?n=a", "nowhere"} {
		a := s.get(path, with(breaker))
		if found := inline.FindString(a.text); found != "" {
			t.Errorf("%q has %q", path, found)
		}
		if !strings.HasPrefix(a.Header.Get("Content-Security-Policy"), "default-src 'self';") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%q has the headers %v", path, a.Header)
		}
	}
}

// broken is a store that cannot be read.
type broken struct{ padlock.Store }

func (broken) Inspect(context.Context, string) (driver.State, error) {
	return driver.State{}, driver.ErrUnavailable
}

func (broken) List(context.Context, string) ([]driver.State, error) {
	return nil, driver.ErrUnavailable
}

func (broken) Break(context.Context, string, uint64) (uint64, error) {
	return 0, driver.ErrUnavailable
}

// A visitor that goes away while the histories are read leaves no incomplete figures for the next
// visitors.
func TestFiguresAfterAVisitorThatWentAway(t *testing.T) {
	past := history.Open(t.TempDir(), "", nil)
	for _, name := range []string{"hourly", "nightly"} {
		record(t, past, history.Run{Name: name, Start: time.Now(), End: time.Now(), Slot: -1})
	}
	s := newSite(t, padlockweb.History(past), padlockweb.ReadWithoutToken())
	figures := func(ctx context.Context) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, s.url+"metrics", nil)
		s.web.ServeHTTP(w, r)
		return w.Body.String()
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	figures(gone)
	if text := figures(t.Context()); !strings.Contains(text, "hourly") || !strings.Contains(text, "nightly") {
		t.Errorf("the next visitor gets not all figures of the runs:\n%s", text)
	}
}

// priced is a store that reads each name by a request. It may have so many that a list fails.
type priced struct {
	*memstore.Store
	unlisted atomic.Bool
}

func (p *priced) List(ctx context.Context, prefix string) ([]driver.State, error) {
	if reads.Add(ctx, 1); p.unlisted.Load() {
		return nil, driver.ErrUnavailable
	}
	return p.Store.List(ctx, prefix)
}

// A server is ready while its store can be read, even if the names cannot be listed, or nobody has
// looked for long. Then a page shows what is held now.
func TestReadyWithoutSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &priced{Store: memstore.New()}
		store.unlisted.Store(true)
		l := padlock.New(store)
		defer l.Close(t.Context())
		w := padlockweb.Handler(l, padlockweb.ReadWithoutToken())
		defer w.Close()
		wants := func(path string, code int, text string) {
			got := httptest.NewRecorder()
			if w.ServeHTTP(got, httptest.NewRequest(http.MethodGet, path, nil)); got.Code != code || !strings.Contains(got.Body.String(), text) {
				t.Errorf("%s is %d: %s", path, got.Code, got.Body)
			}
		}
		wants("/readyz", http.StatusOK, "")
		store.unlisted.Store(false)
		if _, err := l.Acquire(t.Context(), "late"); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		wants("/api/locks", http.StatusOK, "late")
		store.Close()
		wants("/readyz", http.StatusServiceUnavailable, "")
	})
}
