package web

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

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
	p.env = append(p.env, "PADLOCK_STORE=sqlite:///tmp/padlock-pictures/locks.db", "PADLOCK_RECORD=1")
	if err := os.Mkdir("/tmp/padlock-pictures", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("/tmp/padlock-pictures") })
	s := p.serve()
	first := p.run("nightly-report", "--label", "report.sh")
	first.end(t)
	hung := p.run("--ttl", "20s", "--label", "import.sh", "import:customers")
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
	hung.cmd.Process.Signal(syscall.SIGSTOP) // it renews no longer
	defer hung.cmd.Process.Signal(syscall.SIGCONT)
	tab.Until(`document.querySelectorAll("tr[data-level=stuck]").length === 1 && document.querySelectorAll("tr[data-level=hot]").length === 1`)
	look := func(scheme string, width, height int, name string) {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
		tab.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
		tab.Until(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches && ` + isLive)
		tab.Picture(filepath.Join(dir, name))
	}
	look("light", 1240, 560, "web.png")
	look("dark", 1240, 560, "web-dark.png")
	look("dark", 390, 800, "web-phone.png")
	tab.Go(s.url + "name?n=nightly-report")
	look("light", 1240, 560, "web-name.png")
}
