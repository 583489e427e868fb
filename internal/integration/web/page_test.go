package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/integration/browser"
)

// shows is true in a tab that shows a row for the name.
func shows(name string) string {
	return fmt.Sprintf(`document.querySelector('tr[data-name=%q]') !== null`, name)
}

func hides(name string) string { return "!(" + shows(name) + ")" }

const isLive = `document.getElementById("connection").dataset.kind === "live"`

// TestNewcomer: a newcomer starts padlock serve on the store that padlock uses without any setting,
// opens the page, and sees a job appear and go. This is the README's promise.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = withoutStore(p.env)
	name := fmt.Sprintf("newcomer-%d", os.Getpid()) // other tests may use the same store
	s := p.serve()
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + " && " + hides(name))
	job := p.run(name)
	tab.Until(shows(name))
	tab.Until(`/:\d+ cat\b/.test(document.querySelector('tr[data-name="` + name + `"]').innerText)`)
	job.end(t)
	tab.Until(hides(name))
	if log := s.end(); log != "" {
		t.Errorf("the log is not empty: %s", log)
	}
	tab.Until(`document.getElementById("connection").dataset.kind === "lost"`)
}

func withoutStore(env []string) (rest []string) {
	for _, v := range env {
		if !strings.HasPrefix(v, "PADLOCK_") {
			rest = append(rest, v)
		}
	}
	return rest
}

// TestWithoutScript: a browser that runs no script reloads the page by itself.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	tab := browser.Start(t).Open("about:blank")
	tab.Call("Emulation.setScriptExecutionDisabled", map[string]any{"value": true})
	tab.Go(s.url)
	tab.Until(hides("nightly") + ` && document.body.innerText.includes("reloads every 3 seconds")`)
	job := p.run("nightly")
	tab.Until(shows("nightly"))
	job.end(t)
	tab.Until(hides("nightly"))
}

// TestBreakInBrowser: an operator logs in, finds a lock with the keyboard, and breaks it.
func TestBreakInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.env = append(p.env, "PADLOCK_STORE=sqlite://"+filepath.Join(p.dir, "locks.db")) // its locks can be broken
	const token = "operator-0123456789abcdef"
	s := p.serve("--allow-break", "--token-file", p.file("tokens", "ann "+token+" break\n"))
	p.run("--lost-exit-code", "0", "nightly")
	p.run("other")
	chromium := browser.Start(t)
	tab := chromium.Open(s.url)
	tab.Until(isLive + " && " + shows("nightly"))
	key := func(name string, code int) {
		for _, kind := range []string{"keyDown", "keyUp"} {
			event := map[string]any{"type": kind, "key": name, "windowsVirtualKeyCode": code}
			if kind == "keyDown" {
				event["text"] = map[string]string{"Enter": "\r", "Tab": ""}[name]
				if len(name) == 1 {
					event["text"] = name
				}
			}
			tab.Call("Input.dispatchKeyEvent", event)
		}
	}
	key("Tab", 9)
	tab.Until(`document.activeElement.className === "skip"`)
	key("/", 191)
	tab.Until(`document.activeElement.id === "filter"`)
	tab.Call("Input.insertText", map[string]any{"text": "NIGHT"})
	key("Enter", 13)
	tab.Until(isLive + " && " + shows("nightly") + " && " + hides("other"))
	tab.Eval(`document.querySelector('tr[data-name=nightly] th a').focus()`)
	tab.Eval(`window.before = document.activeElement; window.then = document.querySelector("footer time").dateTime`)
	tab.Until(`document.querySelector("footer time").dateTime !== window.then && document.activeElement === window.before`) // the row stays
	key("Enter", 13)
	tab.Until(`document.querySelector("h1")?.textContent === "nightly" && ` + isLive)
	tab.Until(`!document.body.innerText.includes("Break …")`) // the page offers this only after a login
	tab.Go(s.url + "login")
	tab.Eval(`document.querySelector("input[name=token]").value = "` + token + `"; document.querySelector("form.form button").click()`)
	tab.Until(`document.body.innerText.includes("ann") && ` + isLive)
	tab.Go(s.url + "name?n=nightly")
	tab.Until(`document.getElementById("break-0") !== null`)
	tab.Eval(`document.getElementById("break-0").click()`)
	tab.Until(`document.querySelector("h1")?.textContent === "Break nightly"`)
	tab.Eval(`document.querySelector("input[name=reason]").value = "web-3 is dead"; document.querySelector("button.danger").click()`)
	tab.Until(`document.body.innerText.includes("The lock is broken")`)
	if said := chromium.Complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
	if log := s.end(); !strings.Contains(log, `"msg":"break","token":"ann"`) || !strings.Contains(log, `"reason":"web-3 is dead"`) {
		t.Errorf("the log has no break: %s", log)
	}
}

// TestLooks: nothing is wider than the window, from a phone to a wide screen, light and dark.
func TestLooks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	for _, name := range []string{"nightly-report", "invoice:42", "deploy/shop", strings.Repeat("a-long-name-", 20)} {
		p.run("--label", "report.sh", name)
	}
	p.run("--slots", "3", "thumbnails")
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + ` && document.querySelectorAll("tr[data-level]").length === 5`)
	for _, look := range []struct {
		name, scheme  string
		width, height int
	}{{"phone-light", "light", 390, 844}, {"phone-dark", "dark", 390, 844}, {"wide-light", "light", 1280, 620}, {"wide-dark", "dark", 1920, 900}} {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": look.width < 500})
		tab.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": look.scheme}}})
		tab.Until(fmt.Sprintf(`innerWidth === %d && matchMedia("(prefers-color-scheme: %s)").matches`, look.width, look.scheme))
		if over := tab.Eval(`document.documentElement.scrollWidth - document.documentElement.clientWidth`); over != 0. {
			t.Errorf("%s: the page is %v wider than the window", look.name, over)
		}
		dark := tab.Eval(`getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).reduce((a, b) => a + Number(b), 0) < 3 * 128`)
		if dark != (look.scheme == "dark") {
			t.Errorf("%s: the background is dark: %v", look.name, dark)
		}
	}
}

// TestAccessible: the browser gives a screen reader a table with headers, a live region, and a name
// for each thing that can be used, even on a phone, where the table is shown as cards.
func TestAccessible(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve()
	p.run("nightly")
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + " && " + shows("nightly"))
	tab.Until(`document.querySelector("[aria-live=polite]").textContent === "1 name is held."`)
	for _, width := range []int{390, 1280} {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false})
		tab.Until(fmt.Sprintf(`innerWidth === %d`, width))
		roles := tab.Roles()
		for role, want := range map[string]int{"table": 1, "columnheader": 9, "rowheader": 1, "searchbox": 1, "main": 1, "banner": 1, "status": 1} {
			if roles[role] < want {
				t.Errorf("%d wide: %d of role %s, want %d: %v", width, roles[role], role, want, roles)
			}
		}
		if n := roles["unnamed"]; n > 0 {
			t.Errorf("%d wide: %d links, buttons or fields have no name", width, n)
		}
	}
}
