package session

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock/web/session/internal/standing"
)

// Cookie is the Option that describes the cookie with the id. Empty fields keep their defaults. The
// zero value is the safest: HttpOnly, Secure, SameSite=Lax and for this host only. When the user
// closes the browser, the cookie is deleted, unless Persist is set. For a wrong field, New returns
// an error.
type Cookie struct {
	Name   string // the default is DefaultCookieName; if Insecure, Domain or a Path other than "/" is set, it is "session"
	Path   string // the default is "/"; with any other path, the name must not begin with "__Host-"
	Domain string // empty by default; if it is set, the name must not begin with "__Host-"
	// Insecure lets the cookie travel over plain HTTP, for development.
	Insecure bool
	// Scripts lets scripts of the page read the id.
	Scripts  bool
	SameSite http.SameSite // the default is http.SameSiteLaxMode
	// Persist makes the browser keep the cookie for the Lifetime, even if the user closes the
	// browser. The Manager must have a Lifetime. Package phpsession refuses Persist: its sessions
	// have none.
	Persist bool
	// Partitioned gives the page a cookie of its own for each site that embeds it (CHIPS).
	Partitioned bool
}

func (c Cookie) applyManager(cfg *config) { cfg.cookie = c }

func (c *Cookie) setDefaults() {
	if c.Name == "" {
		c.Name = DefaultCookieName
		if c.Insecure || c.Domain != "" || c.Path != "" && c.Path != "/" {
			c.Name = "session"
		}
	}
	if c.Path == "" {
		c.Path = "/"
	}
	if c.SameSite == 0 {
		c.SameSite = http.SameSiteLaxMode
	}
}

func (c *Cookie) check() error {
	if err := c.make("x", 0).Valid(); err != nil {
		return err
	}
	if !strings.HasPrefix(c.Path, "/") {
		return fmt.Errorf("the path %q of the cookie does not begin with a slash: browsers would ignore it", c.Path)
	}
	if strings.HasPrefix(c.Name, "__Host-") && (c.Insecure || c.Domain != "" || c.Path != "/") {
		return errors.New(`a cookie "__Host-…" must be secure, with path "/" and without a domain`)
	}
	if c.Insecure && strings.HasPrefix(c.Name, "__Secure-") {
		return errors.New(`a cookie "__Secure-…" must be secure`)
	}
	if c.SameSite == http.SameSiteNoneMode && c.Insecure {
		return errors.New("a cookie with SameSite=None must be secure")
	}
	return nil
}

// make returns the cookie. A negative age deletes it. With 0 the browser deletes it when it is
// closed. The id is encoded as PHP does it.
func (c *Cookie) make(id string, age time.Duration) *http.Cookie {
	h := &http.Cookie{
		Name: c.Name, Value: url.QueryEscape(id), Path: c.Path, Domain: c.Domain,
		Secure: !c.Insecure, HttpOnly: !c.Scripts, SameSite: c.SameSite, Partitioned: c.Partitioned,
	}
	switch {
	case age < 0:
		h.Value, h.MaxAge = "", -1
	case age > 0:
		h.MaxAge = int(age / time.Second)
	}
	return h
}

// maxIDs is how many ids of one request are looked for in the store.
const maxIDs = 4

// idsFrom returns the values of the session cookies in r that have the form of an id. A browser sends
// several cookies of one name if they were set for different paths or domains, perhaps by another
// host. The first one that has a session counts, as in gorillastore. Beside PHP the first one counts
// in any case, as it does for PHP.
func (m *Manager) idsFrom(r *http.Request) (ids []string) {
	for _, c := range r.CookiesNamed(m.cfg.cookie.Name) {
		id, err := url.QueryUnescape(c.Value)
		if err != nil || !m.rules.ValidID(id) {
			continue
		}
		if ids = append(ids, id); len(ids) == maxIDs || m.traits.CommitsNeedLock {
			break
		}
	}
	return ids
}

// setCookie sends the session's id if the client does not have it, or with the new age that Remember
// gives it. If the session was destroyed, it deletes the cookie. If another request has given the
// session a new id, the client has that id or will get it, so setCookie sends nothing. Shared caches
// keep no answer that sends a cookie, and by default none of a handler that has used the session. The
// caller holds s.mu.
func (s *state) setCookie(h http.Header) {
	if s.touched {
		h.Add("Vary", "Cookie")
		if h.Get("Cache-Control") == "" {
			h.Set("Cache-Control", "private")
		}
	}
	var cookie *http.Cookie
	switch {
	case s.Is(standing.Destroyed) && s.sent != "":
		s.sent, cookie = "", s.m.cfg.cookie.make("", -1)
	case !s.Is(standing.Destroyed) && s.ID() != "" && (s.ID() != s.sent || s.newCookie && !s.Is(standing.Followed)):
		s.sent, cookie = s.ID(), s.m.cfg.cookie.make(s.ID(), s.cookieAge())
	default:
		return
	}
	s.newCookie = false
	s.m.dropOwnCookie(h) // removes a cookie that an earlier run of the handler set
	h.Add("Set-Cookie", cookie.String())
	if !strings.Contains(h.Get("Cache-Control"), "private") {
		h.Add("Cache-Control", "private") // content networks often ignore Vary: Cookie, and no-cache="Set-Cookie" too
	}
}

// cookieAge returns how long the browser keeps the cookie. 0 means until the browser is closed.
func (s *state) cookieAge() time.Duration {
	switch {
	case s.life.remembered:
		return max(time.Until(s.life.deadline), time.Second) + time.Second // whole seconds, rounded up
	case s.m.cfg.cookie.Persist:
		return s.m.cfg.lifetime
	}
	return 0
}

// ownCookies returns the Set-Cookie lines that set m's cookie.
func (m *Manager) ownCookies(lines []string) []string {
	var own []string
	for _, line := range lines {
		if strings.HasPrefix(line, m.cfg.cookie.Name+"=") {
			own = append(own, line)
		}
	}
	return own
}

// dropOwnCookie removes m's cookie from h.
func (m *Manager) dropOwnCookie(h http.Header) {
	own := m.ownCookies(h["Set-Cookie"])
	if own == nil {
		return
	}
	var others []string
	for _, line := range h["Set-Cookie"] {
		if !slices.Contains(own, line) {
			others = append(others, line)
		}
	}
	h["Set-Cookie"] = others
}
