package shop_test

import (
	"testing"

	"github.com/padlock-go/padlock/internal/integration/browser"
	redisserver "github.com/padlock-go/padlock/internal/server"
)

// These scripts are true in a tab that greets Zoë, and in one where nobody is logged in.
const (
	greets    = `document.querySelector("header b")?.textContent === "Zoë"`
	loggedOut = `document.querySelector("input[name=name]") !== null`
)

const logIn = `document.querySelector("input[name=name]").value = "Zoë"; document.querySelector("form[action='/login']").requestSubmit()`

// TestOneVisitorTwoServers is a day of a visitor with two browsers, each at another server of the
// shop. She logs in by a double click, and twice at the same moment. She logs out everywhere.
func TestOneVisitorTwoServers(t *testing.T) {
	t.Parallel()
	redis := redisserver.Redis(t, redisserver.RedisOptions{})
	one, two := startShop(t, "-redis", redis.URL()), startShop(t, "-redis", redis.URL())
	chromium := browser.Start(t)
	laptop, phone := chromium.Open(one.url), chromium.OpenPrivate(two.url)

	laptop.Eval(`document.getElementById("add-brass").click()`)
	laptop.Until(cartIs(1))
	laptop.Eval(`{ const again = document.querySelector("form[action='/login']"); setTimeout(() => again.requestSubmit()) }; ` + logIn)
	laptop.Until(greets + " && " + cartIs(1))
	laptop.Eval(`Promise.all([1, 2].map(() => fetch("/login", {method: "POST", body: new URLSearchParams({name: "Zoë"}), redirect: "manual"})))
		.then(answers => { window.answers = answers.map(a => a.type).join() }); 0`)
	laptop.Until(`window.answers !== undefined`)
	if got := laptop.Eval(`window.answers`); got != "opaqueredirect,opaqueredirect" {
		t.Errorf("two logins at once are answered by %v", got)
	}
	laptop.Go(one.url)
	laptop.Until(greets)

	phone.Eval(logIn)
	phone.Until(greets + " && " + cartIs(0)) // a session of its own
	laptop.Eval(`document.querySelector("button[formaction='/logout-everywhere']").click()`)
	laptop.Until(loggedOut)
	phone.Go(two.url)
	phone.Until(loggedOut)
}
