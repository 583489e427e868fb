package padlockweb

import (
	"log/slog"
	"net/http"
	"strings"
	"time"
)

// admit finds out who sent the request. If the visitor lacks the right, admit answers the request
// and returns false.
func (w *Web) admit(rw http.ResponseWriter, r *http.Request, need Right) (*visitor, bool) {
	v := w.visitor(r)
	switch {
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

// visitor finds out who sent a request.
func (w *Web) visitor(r *http.Request) *visitor {
	if w.authorize != nil {
		found := w.authorize(r)
		return newVisitor(token{name: found.Name, right: found.Right, prefix: found.Prefix})
	}
	anonymous := &visitor{}
	if w.openRead {
		anonymous.right = RightRead
	}
	if w.tokens == nil {
		return anonymous
	}
	w.refreshTokens()
	if secret, ok := bearer(r); ok {
		return newVisitor(w.tryLogin(r, secret)) // with a wrong secret, without any right
	}
	if c, err := r.Cookie(cookieName); err == nil {
		if k, ok := w.visits.find(c.Value, time.Now()); ok {
			if k, ok = w.tokens.current(k); ok {
				return newVisitor(k)
			}
		}
	}
	return anonymous
}

// refreshTokens reads the token file again if it has changed.
func (w *Web) refreshTokens() {
	if err := w.tokens.Refresh(); err != nil {
		w.logger.Error("the token file was not read; the tokens that were read last stay good", "error", err.Error())
	}
}

// bearer returns the token of the Authorization header.
func bearer(r *http.Request) (secret string, ok bool) {
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(secret), ok && strings.EqualFold(scheme, "Bearer")
}

// tryLogin returns the token with the secret, or a token without a name. A wrong secret costs the
// sender nothing but the answer: tokens are too long to be guessed, and a limit would let anybody
// behind the same proxy lock out all others.
func (w *Web) tryLogin(r *http.Request, secret string) token {
	k, ok := w.tokens.find(secret)
	if !ok {
		w.audit(r, slog.LevelWarn, "login failed", "")
	}
	return k
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
	k := w.tryLogin(r, strings.TrimSpace(r.PostForm.Get("token")))
	if k.name == "" {
		w.page(rw, r, http.StatusUnauthorized, v, "login", &content{Title: "Log in", Problem: "This token is not valid."})
		return
	}
	w.audit(r, slog.LevelInfo, "login", k.name)
	setCookie(rw, r, w.visits.beginVisit(k, time.Now()))
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
