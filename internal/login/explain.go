package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
)

// Explain returns an error for a failed attempt to connect. Its text is one line, has none of the
// secrets, and says what to do. A driver that has tried several addresses joins one error for each
// address. If one of these is a reply of a server, the text has only that reply. Otherwise the text
// has all errors.
func Explain(err error, secrets ...string) error {
	reasons := reasonsOf(err)
	text := Hide(errors.New(strings.Join(reasons, "; ")), secrets...).Error()
	if a := advice(err, text); a != "" {
		text += "; " + a
	}
	return &hidden{err, text}
}

// reasonsOf returns the texts of the errors that err consists of, without those parts that drivers
// put in front of the reason.
func reasonsOf(err error) []string {
	var reply interface {
		error
		SQLState() string
	}
	if errors.As(err, &reply) {
		return []string{oneLine(reply)}
	}
	var reasons []string
	for _, e := range parts(err) {
		var op *net.OpError
		if errors.As(e, &op) {
			e = op
		}
		if text := oneLine(e); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	return reasons
}

// parts returns the errors that were joined to err, or err itself.
func parts(err error) []error {
	for e := err; e != nil; e = errors.Unwrap(e) {
		joined, ok := e.(interface{ Unwrap() []error })
		if !ok {
			continue
		}
		var all []error
		for _, one := range joined.Unwrap() {
			all = append(all, parts(one)...)
		}
		return all
	}
	return []error{err}
}

// oneLine returns the text of err with one blank for each line break. It also removes "%!w(<nil>)",
// which pgx writes where it expected an error and there was none.
func oneLine(err error) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(err.Error()), " "), ": %!w(<nil>)", "")
}

// answers maps parts of the replies of servers to advice. PostgreSQL's replies have an SQLSTATE,
// and those of MySQL and MariaDB have a number.
var answers = []struct{ part, advice string }{
	{"SQLSTATE 28P01", wrongLogin},
	{"SQLSTATE 28000", "correct the user, or allow this client in pg_hba.conf"},
	{"SQLSTATE 3D000", wrongDatabase},
	{"SQLSTATE 53300", tooMany},
	{"SQLSTATE 57P03", "the server is starting or stopping; try again"},
	{"Error 1045", wrongLogin},
	{"Error 1698", wrongLogin},
	{"Error 1130", "allow this host at the server (CREATE USER 'USER'@'HOST')"},
	{"Error 1044", "grant the user rights on the database, or correct the name of the database"},
	{"Error 1049", wrongDatabase},
	{"Error 1040", tooMany},
	{"bouncer config error", "correct the database or the user, which PgBouncer's configuration must name"},
	{"received unexpected message", "what listens there does not speak PostgreSQL's protocol; correct the address"},
	{"server refused TLS connection", "write sslmode=disable for a connection without TLS"},
	{"server does not support TLS", "write tls=false for a connection without TLS"},
}

const (
	wrongLogin    = "correct the user or the password"
	wrongDatabase = "create the database, or correct its name"
	tooMany       = "the server has too many connections; raise its max_connections, or lower pool in the URLs of the stores"
)

// advice returns what to do about an error, or "".
func advice(err error, text string) string {
	for _, a := range answers {
		if strings.Contains(text, a.part) {
			return a.advice
		}
	}
	var misnamed x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	var name *net.DNSError
	var dial *net.OpError
	var waited net.Error
	switch {
	case errors.As(err, &misnamed):
		return "the server's certificate is for another host; name the host that it is for"
	case errors.As(err, &untrusted):
		return "the server's certificate is not trusted; name its authority"
	case errors.As(err, &plain):
		return "the server does not speak TLS; leave TLS out"
	case errors.As(err, &name) && name.IsNotFound:
		return "correct the host"
	case errors.As(err, &dial) && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)): // or there is no such socket
		return "start the server, or correct the address"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &waited) && waited.Timeout():
		return "the server is silent; is it overloaded, is the address right, and does a firewall let connections pass?"
	}
	return ""
}
