package shop_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	redisserver "github.com/padlock-go/padlock/internal/server"
)

var buildShop = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "padlock-shop-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "shop")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join("..", "..", "..", "examples", "shop") // a module of its own
	if out, err := build.CombinedOutput(); err != nil {
		return binary, fmt.Errorf("%w: %s", err, out)
	}
	return binary, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if binary, _ := buildShop(); binary != "" {
		os.RemoveAll(filepath.Dir(binary))
	}
	os.Exit(status)
}

// server is a shop that runs.
type server struct {
	url string
	cmd *exec.Cmd
}

// startShop starts the shop as its users do.
func startShop(t *testing.T, args ...string) *server {
	t.Helper()
	binary, err := buildShop()
	noError(t, err)
	cmd := exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	s := &server{cmd: cmd}
	t.Cleanup(s.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	noError(t, err)
	s.url = strings.TrimSpace(line[strings.Index(line, "http://"):]) + "/"
	return s
}

// kill ends the server as kill -9 does.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// settle waits until all tabs show prices of the same moment, so that none reloads itself.
func settle(tabs ...*tab) {
	first := tabs[0]
	for _, t := range tabs {
		t.until(`document.readyState === "complete"`)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		same := true
		at := first.eval("document.body?.dataset.at ?? ''")
		for _, t := range tabs {
			same = same && t.eval("document.body?.dataset.at ?? ''") == at
		}
		if same && at != "" {
			return
		}
		tick := time.NewTimer(20 * time.Millisecond)
		<-tick.C
	}
	first.t.Fatal("the tabs do not agree on the prices")
}

// cartIs is true in a tab that shows so many things in the cart.
func cartIs(n int) string {
	return fmt.Sprintf(`(document.querySelector("#cart .count")?.textContent ?? "0") === "%d"`, n)
}

// TestTwoTabs adds to one cart in two tabs of a browser at the same time. Both things are in the
// cart, in both tabs. The test clicks, as people do.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	url := startShop(t).url
	browser := startChromium(t)
	first, second := browser.open(url), browser.open(url)
	settle(first, second)
	const rounds = 5
	for range rounds {
		a := first.begin(`document.getElementById("add-brass").click()`)
		b := second.begin(`document.getElementById("add-key").click()`)
		noError(t, await(a, "a click", nil))
		noError(t, await(b, "a click", nil))
	}
	for _, tab := range []*tab{first, second} {
		tab.until(cartIs(2 * rounds))
		for _, sku := range []string{"brass", "key"} {
			if n := tab.eval(fmt.Sprintf(`document.querySelector("#cart [data-sku=%s] b").textContent`, sku)); n != fmt.Sprint("× ", rounds) {
				t.Errorf("%s: %v, want %d", sku, n, rounds)
			}
		}
	}
	first.eval(`document.getElementById("all").click()`) // six requests at once
	first.until(`document.getElementById("result").textContent === "6 requests, 6 answered OK, 0 of them lost."`)
	for _, tab := range []*tab{first, second} {
		tab.until(cartIs(2*rounds + 6))
	}
	if path := os.Getenv("PADLOCK_PICTURE"); path != "" {
		first.picture(path)
	}
	second.eval(`document.querySelector("#cart .remove").click()`)
	second.until(cartIs(rounds + 5))
	first.until(cartIs(rounds + 5))
	first.eval(`document.querySelector("form.order button").click()`)
	first.until(`document.querySelector(".notice")?.textContent.startsWith("Order 1 is placed")`)
	first.until(cartIs(0))
	second.until(cartIs(0)) // and cannot be ordered once more
	second.until(`document.querySelector("form.order") === null`)
	if said := browser.complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}

// TestLastWriteWins: the second button shows what is lost without conditions.
func TestLastWriteWins(t *testing.T) {
	t.Parallel()
	tab := startChromium(t).open(startShop(t).url)
	tab.eval(`document.getElementById("careless").click()`)
	tab.until(`/^6 requests, 6 answered OK, [1-5] of them lost.$/.test(document.getElementById("result").textContent)`)
	tab.until(`document.getElementById("result").className === "lost"`)
}

// TestLogInAndOutInAllTabs: no tab goes on greeting a visitor who has left.
func TestLogInAndOutInAllTabs(t *testing.T) {
	t.Parallel()
	url := startShop(t).url
	browser := startChromium(t)
	first, second := browser.open(url), browser.open(url)
	settle(first, second)
	first.eval(`document.querySelector("input[name=name]").value = "Zoë"; document.querySelector("form[action='/login'] button").click()`)
	for _, tab := range []*tab{first, second} {
		tab.until(`document.querySelector("header b")?.textContent === "Zoë"`)
	}
	settle(first, second)
	second.eval(`document.getElementById("add-brass").click()`)
	first.until(cartIs(1))
	first.eval(`document.querySelector("form[action='/logout'] button").click()`)
	for _, tab := range []*tab{first, second} {
		tab.until(`document.querySelector("input[name=name]") !== null`)
		tab.until(cartIs(0))
	}
	if said := browser.complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}

// TestButtonsInSight: the important buttons of the shop can be clicked without scrolling on a
// laptop.
func TestButtonsInSight(t *testing.T) {
	t.Parallel()
	tab := startChromium(t).open(startShop(t).url)
	noError(t, tab.call(tab.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil))
	for _, button := range []string{"#all", "#careless", "form[action='/rush'] button"} {
		in := tab.eval(`(() => { const r = document.querySelector(` + quote(button) + `).getBoundingClientRect(); return r.width > 0 && r.top >= 0 && r.bottom <= innerHeight && innerHeight === 900 })()`)
		if in != true {
			t.Errorf("%s is out of sight", button)
		}
	}
	if path := os.Getenv("PADLOCK_PICTURE"); path != "" {
		tab.picture(path + ".laptop.png")
	}
}

// TestTwoServers runs two servers on one Redis, which are one shop. When one is killed with kill
// -9, the other one still has everything.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	redis := redisserver.Redis(t, redisserver.RedisOptions{}).URL()
	one, two := startShop(t, "-redis", redis), startShop(t, "-redis", redis)
	browser := startChromium(t)
	first := browser.open(one.url)
	second := browser.open(two.url) // the same cookie: ports do not count
	const rounds = 5
	for range rounds {
		a := first.begin(`document.getElementById("add-brass").click()`)
		b := second.begin(`document.getElementById("add-key").click()`)
		noError(t, await(a, "a click", nil))
		noError(t, await(b, "a click", nil))
	}
	first.until("refresh(), " + cartIs(2*rounds)) // servers tell each other nothing: it has to look
	one.kill()
	second.eval(`document.getElementById("add-safe").click()`)
	second.until(cartIs(2*rounds + 1))
	second.eval(`document.querySelector("form.order button").click()`)
	second.until(`document.querySelector(".notice")?.textContent.startsWith("Order 1 is placed: 11 things")`)
}
