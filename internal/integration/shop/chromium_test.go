package shop_test

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
)

// patience is for machines that are busy with other tests.
const patience = 90 * time.Second

// chromium is a browser without a window. It reads commands of the DevTools protocol from one pipe
// and writes replies and events to another. Each is JSON followed by a zero byte.
type chromium struct {
	t  testing.TB
	in io.WriteCloser

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	ended   error    // when no more answers come
	said    []string // complaints of the pages
}

type reply struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// startChromium skips where there is no browser, and fails in CI.
func startChromium(t testing.TB) *chromium {
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
	ownGroup(cmd)
	noError(t, cmd.Start())
	theirs.Close()
	theirOut.Close()
	c := &chromium{t: t, in: in, waiting: make(map[int]chan reply)}
	go c.read(out)
	t.Cleanup(func() {
		endGroup(cmd)
		cmd.Wait() // it says that it was killed
		in.Close()
		out.Close()
		os.RemoveAll(profile) // a child of the browser may still write there: what stays is in the temporary directory
	})
	return c
}

func (c *chromium) read(out io.Reader) {
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

func (c *chromium) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = fmt.Errorf("the browser has ended: %w", err)
	for _, w := range c.waiting {
		close(w)
	}
	clear(c.waiting)
}

func (c *chromium) got(m reply) {
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

// complaints are the errors that pages have logged so far.
func (c *chromium) complaints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.said
}

// send sends a command; the answer comes by the channel.
func (c *chromium) send(session, method string, params map[string]any) (chan reply, error) {
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

// call sends a command and reads its result into to.
func (c *chromium) call(session, method string, params map[string]any, to any) error {
	answer, err := c.send(session, method, params)
	if err != nil {
		return err
	}
	return await(answer, method, to)
}

func await(answer chan reply, what string, to any) error {
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser has ended", what)
		case m.Error != nil:
			return fmt.Errorf("%s: %s", what, m.Error.Message)
		case to == nil:
			return nil
		}
		return json.Unmarshal(m.Result, to)
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer within %v", what, patience)
	}
}

// tab is a page of the browser.
type tab struct {
	*chromium
	session string
}

// open opens url in a new tab; all tabs have their cookies in common.
func (c *chromium) open(url string) *tab {
	c.t.Helper()
	var target struct{ TargetID string }
	var attached struct{ SessionID string }
	err := c.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	if err == nil {
		err = c.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	}
	t := &tab{c, attached.SessionID}
	for _, method := range []string{"Page.enable", "Runtime.enable", "Log.enable"} {
		err = errors.Join(err, t.call(t.session, method, nil, nil))
	}
	noError(c.t, errors.Join(err, t.call(t.session, "Page.navigate", map[string]any{"url": url}, nil)))
	t.until(`document.readyState === "complete" && location.href === ` + quote(url))
	return t
}

// result is what a script gave.
type result struct {
	Result           struct{ Value any }
	ExceptionDetails *struct{ Text string }
}

// begin runs a script and does not wait for it.
func (t *tab) begin(script string) chan reply {
	t.t.Helper()
	answer, err := t.send(t.session, "Runtime.evaluate", map[string]any{"expression": script, "returnByValue": true})
	noError(t.t, err)
	return answer
}

// eval runs a script and returns its value.
func (t *tab) eval(script string) any {
	t.t.Helper()
	r, err := t.try(script)
	if err == nil && r.ExceptionDetails != nil {
		err = fmt.Errorf("%s: %s", script, r.ExceptionDetails.Text)
	}
	noError(t.t, err)
	return r.Result.Value
}

func (t *tab) try(script string) (r result, err error) {
	t.t.Helper()
	return r, await(t.begin(script), script, &r)
}

// until waits until a script returns true. Before that the script may fail, while one page replaces
// another.
func (t *tab) until(script string) {
	t.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		r, err := t.try(script)
		if err == nil && r.Result.Value == true {
			return
		}
		if time.Now().After(end) {
			t.t.Fatalf("after %v still not %s: %v; the page shows %v", patience, script, err, t.eval("document.body.innerText"))
		}
	}
}

// picture writes what the tab shows to a file, for people to look at.
func (t *tab) picture(path string) {
	t.t.Helper()
	var shot struct{ Data []byte }
	noError(t.t, t.call(t.session, "Page.bringToFront", nil, nil)) // others are not drawn
	err := t.call(t.session, "Page.captureScreenshot", map[string]any{"captureBeyondViewport": true}, &shot)
	noError(t.t, errors.Join(err, os.WriteFile(path, shot.Data, 0o600)))
}

func quote(text string) string {
	data, _ := json.Marshal(text) // a string always can be
	return string(data)
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
