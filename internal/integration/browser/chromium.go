package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// patience is the time limit for an answer. It is long, because the machine may be busy with other
// tests.
const patience = 90 * time.Second

// Chromium is a browser without a window. It reads commands of the DevTools protocol from one pipe
// and writes replies and events to another. Each command, reply and event is JSON, with a zero byte
// after it.
type Chromium struct {
	t  testing.TB
	in io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	ended   error    // when no more answers come
	said    []string // complaints of the pages
}

// reply is a reply or an event of the browser.
type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Start starts a browser that ends with the test. If Chromium is not installed, Start skips the
// test, or fails it in CI.
func Start(t testing.TB) *Chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("Debian's package chromium is needed: %v", err)
		}
		t.Skipf("Debian's package chromium is needed: %v", err)
	}
	profile, err := os.MkdirTemp("", "padlock-chromium-")
	noError(t, err)
	cmd := exec.Command(path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions", "--window-size=1200,1000", "--user-data-dir="+profile,
		"--remote-debugging-pipe", "about:blank")
	theirs, in, err := os.Pipe()
	noError(t, err)
	out, theirOut, err := os.Pipe()
	noError(t, err)
	cmd.ExtraFiles = []*os.File{theirs, theirOut}
	noError(t, server.StartChild(cmd))
	theirs.Close()
	theirOut.Close()
	c := &Chromium{t: t, in: in, waiting: make(map[int]chan reply)}
	go c.read(out)
	t.Cleanup(func() {
		noError(t, server.KillChild(cmd))
		cmd.Wait() // it says that it was killed
		in.Close()
		out.Close()
		// A child of the browser may still write files there. Such files are left in the temporary
		// directory.
		os.RemoveAll(profile)
	})
	return c
}

func (c *Chromium) read(out io.Reader) {
	for r := bufio.NewReader(out); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			c.end(err)
			return
		}
		var m reply
		if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
			c.end(err)
			return
		}
		c.got(m)
	}
}

func (c *Chromium) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = fmt.Errorf("the browser has ended: %w", err)
	for _, w := range c.waiting {
		close(w)
	}
	clear(c.waiting)
}

func (c *Chromium) got(m reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[m.ID]; w != nil {
		delete(c.waiting, m.ID)
		w <- m
	}
	if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" {
		c.said = append(c.said, string(m.Params))
	}
}

// Complaints are the errors that pages have logged so far.
func (c *Chromium) Complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// send sends a command. The answer arrives on the returned channel.
func (c *Chromium) send(session, method string, params map[string]any) (chan reply, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return nil, c.ended
	}
	c.last++
	text, err := json.Marshal(map[string]any{"id": c.last, "method": method, "params": params, "sessionId": session})
	if err != nil {
		return nil, err
	}
	answer := make(chan reply, 1)
	c.waiting[c.last] = answer
	_, err = c.in.Write(append(text, 0))
	return answer, err
}

// call sends a command and decodes its result into the value that the last argument points to,
// unless that argument is nil.
func (c *Chromium) call(session, method string, params map[string]any, to any) error {
	answer, err := c.send(session, method, params)
	if err != nil {
		return err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", method)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case to == nil:
			return nil
		}
		return json.Unmarshal(m.Result, to)
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer within %v", method, patience)
	}
}

// Tab is a page of the browser.
type Tab struct {
	*Chromium
	session string
}

// Open opens url in a new tab. All tabs of Open share their cookies.
func (c *Chromium) Open(url string) *Tab {
	c.t.Helper()
	return c.open(url, map[string]any{"url": "about:blank"})
}

// OpenPrivate opens url in a tab with cookies of its own, as if it was another browser.
func (c *Chromium) OpenPrivate(url string) *Tab {
	c.t.Helper()
	var context struct{ BrowserContextID string }
	noError(c.t, c.call("", "Target.createBrowserContext", nil, &context))
	return c.open(url, map[string]any{"url": "about:blank", "browserContextId": context.BrowserContextID})
}

func (c *Chromium) open(url string, params map[string]any) *Tab {
	c.t.Helper()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	err := c.call("", "Target.createTarget", params, &target)
	if err == nil {
		err = c.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	}
	t := &Tab{c, attached.SessionID}
	for _, method := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		err = errors.Join(err, t.call(t.session, method, nil, nil))
	}
	noError(c.t, err)
	t.Go(url)
	return t
}

// Go opens url in the tab and waits until it is loaded.
func (t *Tab) Go(url string) {
	t.t.Helper()
	t.Call("Page.navigate", map[string]any{"url": url})
	t.Until(`document.readyState === "complete" && location.href === ` + Quote(url))
}

// Call sends a command of the DevTools protocol to the tab.
func (t *Tab) Call(method string, params map[string]any) {
	t.t.Helper()
	noError(t.t, t.call(t.session, method, params, nil))
}

// result is the value that a script returned.
type result struct {
	Result           struct{ Value any }
	ExceptionDetails *struct{ Text string }
}

// Eval runs a script and returns its value.
func (t *Tab) Eval(script string) any {
	t.t.Helper()
	r, err := t.try(script)
	if err == nil && r.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s", script, r.ExceptionDetails.Text)
	}
	noError(t.t, err)
	return r.Result.Value
}

func (t *Tab) try(script string) (r result, err error) {
	t.t.Helper()
	err = t.call(t.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true}, &r)
	return r, err
}

// Until runs a script again and again until the script returns true. The script may fail while one
// page replaces another.
func (t *Tab) Until(script string) {
	t.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		r, err := t.try(script)
		if err == nil && r.Result.Value == true {
			return
		}
		if time.Now().After(end) {
			t.t.Fatalf("after %v still not %s: %v; the page shows %v", patience, script, err, t.Eval("document.body.innerText"))
		}
	}
}

// Picture writes an image of the tab to a file, for people to look at.
func (t *Tab) Picture(path string) {
	t.t.Helper()
	var shot struct{ Data []byte }
	noError(t.t, t.call(t.session, "Page.bringToFront", nil, nil)) // the browser does not draw tabs in the background
	err := t.call(t.session, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	noError(t.t, errors.Join(err, os.WriteFile(path, shot.Data, 0o600)))
}

// Quote returns text as a string of JavaScript.
func Quote(text string) string {
	data, _ := json.Marshal(text) // cannot fail for a string
	return string(data)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Roles counts the roles in the tree that the browser gives to a screen reader. "unnamed" counts
// the links, buttons and fields without a name.
func (t *Tab) Roles() map[string]int {
	t.t.Helper()
	type text struct{ Value any }
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name text
		}
	}
	noError(t.t, t.call(t.session, "Accessibility.getFullAXTree", nil, &tree))
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		if n.Ignored {
			continue
		}
		role := fmt.Sprint(n.Role.Value)
		roles[role]++
		switch role {
		case "link", "button", "textbox", "searchbox":
			if n.Name.Value == "" || n.Name.Value == nil {
				roles["unnamed"]++
			}
		}
	}
	return roles
}
