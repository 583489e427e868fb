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

	"github.com/padlock-go/padlock/internal/integration/browser"
	redisserver "github.com/padlock-go/padlock/internal/server"
)

var buildShop = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "padlock-shop-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "shop")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join("..", "..", "..", "examples", "shop") // in another module
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

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// cartIs is true in a tab that shows so many things in the cart.
func cartIs(n int) string {
	return fmt.Sprintf(`(document.querySelector("#cart .count")?.textContent ?? "0") === "%d"`, n)
}

// clicks is a script that clicks on a button n times, before the first answer can come.
func clicks(n int, button string) string {
	return fmt.Sprintf(`for (let i = 0; i < %d; i++) document.getElementById(%q).click()`, n, button)
}

// TestTwoTabs adds to one cart in two tabs of a browser at the same time. Both things are in the
// cart, in both tabs. The test clicks, as people do.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	url := startShop(t).url
	chromium := browser.Start(t)
	first, second := chromium.Open(url), chromium.Open(url)
	const rounds = 5
	first.Eval(clicks(rounds, "add-brass"))
	second.Eval(clicks(rounds, "add-key"))
	for _, tab := range []*browser.Tab{first, second} {
		tab.Until(cartIs(2 * rounds))
		for _, sku := range []string{"brass", "key"} {
			if n := tab.Eval(fmt.Sprintf(`document.querySelector("#cart [data-sku=%s] b").textContent`, sku)); n != fmt.Sprint("× ", rounds) {
				t.Errorf("%s: %v, want %d", sku, n, rounds)
			}
		}
	}
	first.Eval(`document.getElementById("all").click()`) // six requests at once
	first.Until(`document.getElementById("result").textContent === "6 requests, 6 answered OK, 0 of them lost."`)
	for _, tab := range []*browser.Tab{first, second} {
		tab.Until(cartIs(2*rounds + 6))
	}
	first.Eval(`document.querySelector("form.order button").click()`)
	first.Until(`document.querySelector(".notice")?.textContent.startsWith("Order 1 is placed")`)
	first.Until(cartIs(0))
	second.Until(cartIs(0)) // and cannot be ordered once more
	second.Until(`document.querySelector("form.order") === null`)
	if said := chromium.Complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}

// TestLogInAndOutInAllTabs: no tab goes on greeting a visitor who has left.
func TestLogInAndOutInAllTabs(t *testing.T) {
	t.Parallel()
	url := startShop(t).url
	chromium := browser.Start(t)
	first, second := chromium.Open(url), chromium.Open(url)
	first.Eval(`document.querySelector("input[name=name]").value = "Zoë"; document.querySelector("form[action='/login'] button").click()`)
	for _, tab := range []*browser.Tab{first, second} {
		tab.Until(`document.querySelector("header b")?.textContent === "Zoë"`)
	}
	second.Eval(`document.getElementById("add-brass").click()`)
	first.Until(cartIs(1))
	first.Eval(`document.querySelector("form[action='/logout'] button").click()`)
	for _, tab := range []*browser.Tab{first, second} {
		tab.Until(`document.querySelector("input[name=name]") !== null`)
		tab.Until(cartIs(0))
	}
	if said := chromium.Complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}

// TestTwoServers runs two servers on one Redis, which are one shop. When one is killed with kill
// -9, the other one still has everything.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	redis := redisserver.Redis(t, redisserver.RedisOptions{}).URL()
	one, two := startShop(t, "-redis", redis), startShop(t, "-redis", redis)
	chromium := browser.Start(t)
	first := chromium.Open(one.url)
	second := chromium.Open(two.url) // the same cookie: ports do not count
	const rounds = 5
	first.Eval(clicks(rounds, "add-brass"))
	second.Eval(clicks(rounds, "add-key"))
	first.Until("refresh(), " + cartIs(2*rounds)) // servers do not notify each other, so the tab has to ask
	one.kill()
	second.Eval(`document.getElementById("add-safe").click()`)
	second.Until(cartIs(2*rounds + 1))
	second.Eval(`document.querySelector("form.order button").click()`)
	second.Until(`document.querySelector(".notice")?.textContent.startsWith("Order 1 is placed: 11 things")`)
}
