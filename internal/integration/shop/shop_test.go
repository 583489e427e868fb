package shop_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startShop builds the shop, starts it as its users do, and returns its
// address.
func startShop(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "shop")
	build := exec.Command("go", "build", "-o", binary, "github.com/padlock-go/padlock/examples/shop")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(binary, "-addr", "127.0.0.1:0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	noError(t, err)
	noError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	noError(t, err)
	return strings.TrimSpace(line[strings.Index(line, "http://"):]) + "/"
}

// cartIs is true in a tab that shows so many things in the cart.
func cartIs(n int) string {
	return fmt.Sprintf(`(document.querySelector("#cart .count")?.textContent ?? "0") === "%d"`, n)
}

// TestTwoTabs has two tabs of a browser add to one cart at the same time: both
// things are there, in both tabs. It clicks, as people do.
func TestTwoTabs(t *testing.T) {
	t.Parallel()
	url := startShop(t)
	browser := startChromium(t)
	first, second := browser.open(url), browser.open(url)
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
	if said := browser.complaints(); len(said) > 0 {
		t.Errorf("the pages complain: %s", said)
	}
}
