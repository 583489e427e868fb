// Package login makes connections to databases. The errors of this package hide the user and the
// password, and say what to do.
package login

import (
	"net"
	"strings"
)

// hidden is an error whose text was replaced.
type hidden struct {
	error
	text string
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.error }

// Hide returns err with a text in which dots replace each secret. A short secret may be part of a
// word, so it is replaced only where it stands alone.
func Hide(err error, secrets ...string) error {
	text := err.Error()
	for _, s := range secrets {
		switch {
		case s == "":
		case len(s) > 5:
			text = strings.ReplaceAll(text, s, "…")
		default:
			for _, around := range []string{`"?"`, "'?'", "`?`", "=? ", " ? "} {
				text = strings.ReplaceAll(text, strings.Replace(around, "?", s, 1), strings.Replace(around, "?", "…", 1))
			}
		}
	}
	if text == err.Error() {
		return err
	}
	return &hidden{err, text}
}

// Local reports whether a host is on this machine. That is true for the path of a socket and for a
// loopback address.
func Local(host string) bool {
	if host == "" || host == "localhost" || strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
