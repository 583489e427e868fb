package padlockweb

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// setHeaders sets the headers that all replies have.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would also make browsers send "Origin: null" with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// hostAllowed reports whether the request's Host header names this server. In an attack by DNS
// rebinding, the header has a host name of the attacker. An IP address needs no DNS entry, so it is
// always allowed.
func (w *Web) hostAllowed(r *http.Request) bool {
	if w.anyHost || w.hosts == nil && !arrivedAtLoopback(r) {
		return true
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || w.hosts[host]
}

func arrivedAtLoopback(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return Loopback(at)
}

// Loopback reports whether only programs of this machine can reach the address.
func Loopback(at net.Addr) bool {
	switch at := at.(type) {
	case *net.TCPAddr:
		return at.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}

// plain answers with a line of text.
func plain(rw http.ResponseWriter, status int, text string) {
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	rw.Write([]byte(text + "\n"))
}

// redirect sends the browser to a path that is relative to that of the request. http.Redirect would
// make the path absolute, without the path under which the Handler is mounted.
func redirect(rw http.ResponseWriter, to string) {
	rw.Header().Set("Location", to)
	rw.WriteHeader(http.StatusSeeOther)
}

// timeNow returns the current time, for limits and visits.
func timeNow() time.Time { return time.Now() }
