package web

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/integration/browser"
)

// TestPictures makes the pictures of the README and of docs/web.md:
//
//	PADLOCK_PICTURES=$PWD/docs/images go test ./internal/integration/web -run Pictures
func TestPictures(t *testing.T) {
	dir := os.Getenv("PADLOCK_PICTURES")
	if dir == "" {
		t.Skip("makes pictures in the directory PADLOCK_PICTURES")
	}
	p := newPlace(t)
	if err := os.RemoveAll("/tmp/padlock-pictures"); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "PADLOCK_STORE=sqlite:///tmp/padlock-pictures/locks.db")
	if err := os.Mkdir("/tmp/padlock-pictures", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("/tmp/padlock-pictures") })
	s := p.serve()
	hung := p.run("--ttl", "30s", "--label", "import.sh", "import:customers")
	p.run("--label", "report.sh", "nightly-report")
	p.run("--label", "deploy.sh 4.2.1", "deploy/shop")
	for range 3 {
		p.run("--label", "bill.sh", "invoice:42")
	}
	for range 2 {
		p.run("--slots", "3", "--label", "convert", "thumbnails")
	}
	p.run("--shared", "--label", "search", "catalogue")
	p.run("--shared", "--label", "export", "catalogue")
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + ` && document.querySelectorAll("tr[data-level]").length === 6`)
	untilRenewed(t, s, "import:customers")
	hung.cmd.Process.Signal(syscall.SIGSTOP) // the process no longer renews its lock
	defer hung.cmd.Process.Signal(syscall.SIGCONT)
	tab.Until(`document.querySelectorAll("tr[data-level=stuck]").length === 1 && document.querySelectorAll("tr[data-level=hot]").length === 1`)
	tab.Call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true})
	look := func(scheme string, width, height int, name string) {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
		tab.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
		tab.Until(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches && ` + isLive)
		tab.Picture(filepath.Join(dir, name))
	}
	look("light", 1240, 560, "web.png")
	look("dark", 390, 800, "web-phone.png")
}

// untilRenewed waits for a renewal of the lock, so that the sampler can see that the next one is
// missing.
func untilRenewed(t *testing.T, s *serving, name string) {
	t.Helper()
	until := func() (at time.Time) {
		_, text := s.get(http.DefaultClient, "api/locks?n="+name, "")
		if found := regexp.MustCompile(`"until":"([^"]*)"`).FindStringSubmatch(text); found != nil {
			at, _ = time.Parse(time.RFC3339, found[1])
		}
		return at
	}
	first := until()
	for deadline := time.Now().Add(time.Minute); until().Sub(first) < 5*time.Second; <-time.After(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the lock is not renewed")
		}
	}
}
