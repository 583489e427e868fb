package padlockweb_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/observe/padlockweb"
)

// A Handler that nobody gave a rule shows no lock to anybody. The usual way to such a Handler is a
// nil from a configuration that could not be read. No other rule makes up for the nil.
func TestNoRuleShowsNothing(t *testing.T) {
	everything := func(*http.Request) padlockweb.Visitor {
		return padlockweb.Visitor{Name: "ann", Right: padlockweb.RightBreak}
	}
	for what, opts := range map[string][]padlockweb.Option{
		"no option":                 nil,
		"Accept(nil)":               {padlockweb.Accept(nil), padlockweb.AllowBreak()},
		"Authorize(nil)":            {padlockweb.Authorize(nil), padlockweb.AllowBreak()},
		"both":                      {padlockweb.Accept(nil), padlockweb.Authorize(nil)},
		"Authorize(nil), then open": {padlockweb.Authorize(nil), padlockweb.ReadWithoutToken(), padlockweb.AllowBreak()},
		"open, then Authorize(nil)": {padlockweb.ReadWithoutToken(), padlockweb.Authorize(nil)},
		"Accept(nil), then open":    {padlockweb.Accept(nil), padlockweb.ReadWithoutToken()},
		"Accept, Authorize(nil)":    {padlockweb.Accept(tokens(t)), padlockweb.Authorize(nil), padlockweb.AllowBreak()},
		"Accept(nil), Authorize":    {padlockweb.Accept(nil), padlockweb.Authorize(everything), padlockweb.AllowBreak()},
		"Authorize(nil), Authorize": {padlockweb.Authorize(nil), padlockweb.Authorize(everything), padlockweb.AllowBreak()},
		"Accept(nil), Accept":       {padlockweb.Accept(nil), padlockweb.Accept(tokens(t)), padlockweb.AllowBreak()},
		"empty tokens":              {padlockweb.Accept(&padlockweb.Tokens{})},
	} {
		s := newSite(t, opts...)
		s.lock("nightly")
		for _, path := range []string{"", "?q=night", "name?n=nightly", "api/locks", "api/locks?n=nightly", "metrics", "break?n=nightly", "nowhere"} {
			for _, token := range []string{"", breaker} {
				a := s.get(path, with(token))
				if what != "empty tokens" && path != "nowhere" && a.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %q is %d, want 403", what, path, a.StatusCode)
				}
				if a.StatusCode/100 != 4 || strings.Contains(a.text, "nightly") || strings.Contains(a.text, "padlock_sampled") {
					t.Errorf("%s: %q is %d: %s", what, path, a.StatusCode, a.text)
				}
			}
		}
		if a := s.ask(http.MethodHead, "events", ""); a.StatusCode/100 != 4 { // HEAD, as a stream does not end
			t.Errorf("%s: a stream is %d", what, a.StatusCode)
		}
		a := s.ask(http.MethodPost, "break", form("n", "nightly", "fence", "1", "reason", "test"), with(breaker))
		if a.StatusCode/100 != 4 || s.fence("nightly") == 0 {
			t.Errorf("%s: a break is %d", what, a.StatusCode)
		}
		if a := s.get("", header("Accept", "text/html")); what != "empty tokens" && !strings.Contains(a.text, "has no rule") {
			t.Errorf("%s: a browser does not see the reason: %s", what, a.text)
		}
		if a := s.get("healthz"); a.StatusCode != http.StatusOK {
			t.Errorf("%s: /healthz is %d", what, a.StatusCode)
		}
		if what != "empty tokens" && !s.log.has(t, "level", "ERROR") {
			t.Errorf("%s: the log does not say it: %v", what, s.log.lines(t))
		}
	}
}
