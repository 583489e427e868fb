package padlockweb

import (
	"net"
	"net/http"

	"github.com/padlock-go/padlock/internal/remote"
)

// setHeaders sets the headers that all replies have.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin") // no-referrer would also make browsers send "Origin: null" with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Loopback reports whether only programs of this machine can reach the address.
func Loopback(at net.Addr) bool { return remote.Loopback(at) }

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
