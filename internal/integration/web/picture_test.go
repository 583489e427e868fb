package web

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/integration/browser"
	"github.com/padlock-go/padlock/observe/history"
	"github.com/padlock-go/padlock/open/all"
)

// TestPictures makes the pictures of the README and of docs/web.md. It needs root, for the names of
// three hosts.
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
	const place = "sqlite:///tmp/padlock-pictures/locks.db"
	p.env = append(p.env, "PADLOCK_STORE="+place, "PADLOCK_RECORD=0")
	if err := os.Mkdir("/tmp/padlock-pictures", 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll("/tmp/padlock-pictures") })
	recordNights(t, place)
	s := p.serve()
	hung := p.runOn("web-3", "--ttl", "30s", "--label", "import.sh", "import:customers")
	p.runOn("web-1", "--label", "report.sh", "nightly-report")
	p.runOn("web-2", "--label", "deploy.sh 4.2.1", "deploy/shop")
	for _, host := range []string{"web-1", "web-2", "web-3"} {
		p.runOn(host, "--label", "bill.sh", "invoice:42")
	}
	p.runOn("web-1", "--slots", "3", "--label", "convert", "thumbnails")
	p.runOn("web-2", "--slots", "3", "--label", "convert", "thumbnails")
	p.runOn("web-2", "--shared", "--label", "search", "catalogue")
	p.runOn("web-3", "--shared", "--label", "export", "catalogue")
	tab := browser.Start(t).Open(s.url)
	tab.Until(isLive + ` && document.querySelectorAll("tr[data-level]").length === 6`)
	untilRenewed(t, s, "import:customers")
	hung.cmd.Process.Signal(syscall.SIGSTOP) // the process no longer renews its lock
	defer hung.cmd.Process.Signal(syscall.SIGCONT)
	tab.Until(`document.querySelectorAll("tr[data-level=stuck]").length === 1 && document.querySelectorAll("tr[data-level=hot]").length === 1`)
	tab.Call("Emulation.setScrollbarsHidden", map[string]any{"hidden": true})
	tab.Call("Emulation.setTimezoneOverride", map[string]any{"timezoneId": "Europe/Berlin"})
	look := func(path, scheme string, width, height int, name string) {
		tab.Call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
		tab.Call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}})
		tab.Go(s.url + path)
		tab.Until(`matchMedia("(prefers-color-scheme: ` + scheme + `)").matches && ` + isLive)
		tab.Picture(filepath.Join(dir, name))
		shrink(t, filepath.Join(dir, name))
	}
	look("", "light", 1440, 600, "web.png")
	look("jobs", "light", 1440, 600, "web-jobs.png")
	look("name?n=nightly-report", "dark", 1240, 800, "web-name.png")
	look("", "dark", 390, 800, "web-phone.png")
}

// runOn starts padlock run in a namespace in which the host has the name.
func (p *place) runOn(host string, args ...string) *job {
	p.t.Helper()
	padlock := p.command().Path
	script := `hostname "$0" && exec "$@"`
	cmd := exec.Command("unshare", append(append([]string{"--uts", "sh", "-c", script, host, padlock, "run"}, args...), "--", "cat")...)
	cmd.Env = p.env
	return p.begun(cmd)
}

// recordNights records runs of the last nights on three hosts. Each host starts each job, and one
// of them runs it.
func recordNights(t *testing.T, place string) {
	t.Helper()
	store, err := all.Store(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	now := time.Now()
	for n, job := range []struct {
		name, host string
		ago, took  time.Duration
		exit       int
	}{
		{"backup", "web-2", 3*time.Hour + 12*time.Minute, 71 * time.Second, 3},
		{"cleanup", "web-1", 52 * time.Hour, 7 * time.Second, 0},
		{"import:customers", "web-3", 26 * time.Hour, 19 * time.Minute, 0},
		{"nightly-report", "web-1", 5 * time.Hour, 41 * time.Minute, 0},
		{"sitemap", "web-3", 40 * time.Minute, 3 * time.Second, 0},
	} {
		for night := range 7 {
			start := now.Add(-job.ago - time.Duration(night)*24*time.Hour).Truncate(time.Minute).Add(time.Second)
			took, exit := job.took+time.Duration(night)*job.took/50, 0
			if night == 0 {
				exit = job.exit
			}
			for _, host := range []string{"web-1", "web-2", "web-3"} {
				r := history.Run{Name: job.name, Host: host, PID: 4000 + 100*n + night, Label: job.name + ".sh", Start: start, End: start.Add(took), Exit: exit, Slot: -1}
				if host != job.host {
					r.Skipped, r.Reason, r.Exit, r.End = true, "held", 75, time.Time{}
					r.By = []driver.Holder{{Host: job.host, PID: 4000 + 100*n + night, Label: job.name + ".sh"}}
				}
				record(t, store, r)
			}
		}
	}
}

// shrink gives a picture a palette of the colours that are most frequent in it, so that its file is
// small.
func shrink(t *testing.T, path string) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	full, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	size := full.Bounds()
	count := map[color.Color]int{}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			count[full.At(x, y)]++
		}
	}
	colours := slices.Collect(maps.Keys(count))
	slices.SortFunc(colours, func(a, b color.Color) int { return count[b] - count[a] })
	small := image.NewPaletted(size, colours[:min(len(colours), 256)])
	draw.Draw(small, size, full, size.Min, draw.Src)
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
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
