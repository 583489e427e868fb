package login

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

// refusedBy is a reply of PostgreSQL.
type refusedBy string

func (r refusedBy) Error() string    { return "FATAL: no (SQLSTATE " + string(r) + ")" }
func (r refusedBy) SQLState() string { return string(r) }

// to is an error that pgconn makes for one address.
func to(addr string, err error) error { return fmt.Errorf("%s (localhost): dial error: %w", addr, err) }

func dial(addr string, err error) error {
	tcp, _ := net.ResolveTCPAddr("tcp", addr)
	return &net.OpError{Op: "dial", Net: "tcp", Addr: tcp, Err: os.NewSyscallError("connect", err)}
}

// TestExplain compares texts. Each is one line, has no secret, and says what to do.
func TestExplain(t *testing.T) {
	refused := func(addr string) error { return to(addr, dial(addr, syscall.ECONNREFUSED)) }
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(refused("[::1]:1"), refused("127.0.0.1:1"), refused("[::1]:1")),
			"dial tcp [::1]:1: connect: connection refused; dial tcp 127.0.0.1:1: connect: connection refused; start the server, or correct the address"},
		{fmt.Errorf("failed: %w", errors.Join(refused("[::1]:1"), to("127.0.0.1:1", refusedBy("28P01")))), "FATAL: no (SQLSTATE 28P01); correct the user or the password"},
		{refusedBy("3D000"), "FATAL: no (SQLSTATE 3D000); create the database, or correct its name"},
		{refusedBy("XX000"), "FATAL: no (SQLSTATE XX000)"},
		{errors.New("Error 1045 (28000): Access denied for user 'canary'@'h'\n(using password: YES)"),
			"Error 1045 (28000): Access denied for user '…'@'h' (using password: YES); correct the user or the password"},
		{dial("127.0.0.1:1", syscall.ETIMEDOUT), "dial tcp 127.0.0.1:1: connect: connection timed out; the server is silent;"},
		{context.DeadlineExceeded, "context deadline exceeded; the server is silent;"},
		{&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}, "no such file or directory; start the server, or correct the address"},
		{&net.DNSError{Err: "no such host", Name: "nowhere", IsNotFound: true}, "lookup nowhere: no such host; correct the host"},
		{fmt.Errorf("password-file: %w", &fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}), "password-file: open /x: no such file or directory"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "; the server's certificate is not trusted; name its authority"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "db"}}, "; the server's certificate is for another host; name the host that it is for"},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "; the server does not speak TLS; leave TLS out"},
		{errors.New("127.0.0.1:1 (h): received unexpected message: %!w(<nil>)"), "127.0.0.1:1 (h): received unexpected message; what listens there does not speak PostgreSQL's protocol; correct the address"},
		{errors.New("server refused TLS connection"), "; write sslmode=disable for a connection without TLS"},
	} {
		got := Explain(c.err, "canary")
		if text := got.Error(); !strings.Contains(text, c.want) || strings.ContainsAny(text, "\n\t") || strings.Contains(text, "canary") || text[0] == ';' || !strings.Contains(c.want, ";") && text != c.want {
			t.Errorf("it says %q, want %q", text, c.want)
		}
		if !errors.Is(got, c.err) {
			t.Errorf("%v: the error itself is lost", c.err)
		}
	}
}
