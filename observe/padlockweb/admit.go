package padlockweb

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/padlock-go/padlock/internal/remote"
)

// admit finds out who sent the request. If the visitor lacks the right, admit answers the request
// and returns false.
func (w *Web) admit(rw http.ResponseWriter, r *http.Request, need Right) (*visitor, bool) {
	v, wait := w.visitor(r)
	switch {
	case wait > 0:
		tooMany(rw, wait)
		return nil, false
	case v.right >= need:
		return v, true
	case !w.hasRule():
		w.refused(r, "", noRule)
		w.message(rw, r, http.StatusForbidden, v, noRule)
		return nil, false
	case need == RightBreak && v.right == RightRead && v.known(), w.tokens == nil:
		w.refused(r, v.token.name, "the right "+need.String()+" is missing", slog.String("name", r.FormValue("n")))
		w.message(rw, r, http.StatusForbidden, v, "You may not do that: your right is "+v.right.String()+", and "+need.String()+" is needed.")
		return nil, false
	}
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		redirect(rw, strings.Repeat("../", max(0, strings.Count(r.URL.Path, "/")-1))+"login")
		return nil, false
	}
	rw.Header().Set("WWW-Authenticate", `Bearer realm="padlock"`)
	plain(rw, http.StatusUnauthorized, "a token is needed: send it in the header \"Authorization: Bearer\", or log in with a browser")
	return nil, false
}

// visitor finds out who sent a request. After failed logins a client has to wait before it may fail
// again. If the secret of this request is wrong and its client has to wait, retryAfter is greater
// than 0.
func (w *Web) visitor(r *http.Request) (v *visitor, retryAfter time.Duration) {
	if w.authorize != nil {
		found := w.authorize(r)
		return newVisitor(token{name: found.Name, right: found.Right, prefix: found.Prefix}), 0
	}
	anonymous := &visitor{}
	if w.openRead {
		anonymous.right = RightRead
	}
	if w.tokens == nil {
		return anonymous, 0
	}
	w.refreshTokens()
	if secret, ok := bearer(r); ok {
		k, retryAfter := w.tryLogin(r, secret)
		if k.name == "" {
			return &visitor{}, retryAfter
		}
		return newVisitor(k), 0
	}
	if c, err := r.Cookie(cookieName); err == nil {
		if k, ok := w.visits.find(c.Value, timeNow()); ok {
			if k, ok = w.tokens.current(k); ok {
				return newVisitor(k), 0
			}
		}
	}
	return anonymous, 0
}

// refreshTokens reads the token file again if it has changed.
func (w *Web) refreshTokens() {
	if err := w.tokens.refresh(timeNow()); err != nil {
		w.logger.Error("the token file was not read; the tokens that were read last stay good", "error", err.Error())
	}
}

// bearer returns the token of the Authorization header.
func bearer(r *http.Request) (secret string, ok bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "Bearer")
}

// tryLogin compares a secret with the tokens. A client that has failed too often gets no answer for
// a wrong secret. A right one is always good: behind a proxy, or on one machine, all clients have
// the same address, and one of them must not lock out the others.
func (w *Web) tryLogin(r *http.Request, secret string) (k token, wait time.Duration) {
	if k, ok := w.tokens.find(secret); ok {
		return k, 0
	}
	client := remote.Address(r.RemoteAddr)
	if wait := w.attempts.waitTime(client, timeNow()); wait > 0 {
		return token{}, wait
	}
	w.attempts.failed(client, timeNow())
	w.audit(r, slog.LevelWarn, "login failed", "")
	return token{}, 0
}

// tooMany answers a client that has failed too often.
func tooMany(rw http.ResponseWriter, wait time.Duration) {
	rw.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	plain(rw, http.StatusTooManyRequests, "too many failed logins from this address; try again later")
}

// askLogin shows the form for a token.
func (w *Web) askLogin(rw http.ResponseWriter, r *http.Request, v *visitor) {
	if w.tokens == nil || w.authorize != nil {
		w.message(rw, r, http.StatusNotFound, v, "This server uses no tokens.")
		return
	}
	w.page(rw, r, http.StatusOK, v, "login", &content{Title: "Log in"})
}

// logIn takes the token of the form and starts a visit.
func (w *Web) logIn(rw http.ResponseWriter, r *http.Request, v *visitor) {
	if w.tokens == nil || w.authorize != nil {
		w.message(rw, r, http.StatusNotFound, v, "This server uses no tokens.")
		return
	}
	if err := r.ParseForm(); err != nil {
		w.message(rw, r, http.StatusBadRequest, v, "The form could not be read.")
		return
	}
	w.refreshTokens()
	k, wait := w.tryLogin(r, strings.TrimSpace(r.PostForm.Get("token")))
	switch {
	case wait > 0:
		tooMany(rw, wait)
		return
	case k.name == "":
		w.page(rw, r, http.StatusUnauthorized, v, "login", &content{Title: "Log in", Problem: "This token is not valid."})
		return
	}
	w.audit(r, slog.LevelInfo, "login", k.name)
	setCookie(rw, r, w.visits.beginVisit(k, timeNow()))
	redirect(rw, "./")
}

// logOut ends the visit.
func (w *Web) logOut(rw http.ResponseWriter, r *http.Request, _ *visitor) {
	if c, err := r.Cookie(cookieName); err == nil {
		w.visits.end(c.Value)
	}
	setCookie(rw, r, "")
	redirect(rw, "./")
}
