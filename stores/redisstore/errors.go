package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/padlock-go/padlock/storekit"
	"github.com/redis/rueidis"
)

func unavailable(format string, args ...any) error {
	return fmt.Errorf("%w: redis: "+format, append([]any{driver.ErrUnavailable}, args...)...)
}

// failure translates err, the error of a request, to an error of package driver. It is for requests
// that the server may have received. If it is not known whether the server has done what the
// request asks for, the result matches driver.ErrUncertain. If the server refused because it is not
// the primary, failure ends the connections to it, so that the next call makes a new one.
func (s *Store) failure(ctx context.Context, err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		if redisconn.WrongRole(reply.Error()) {
			s.server.LeaveRefusing()
		}
		return refusal(reply.Error())
	}
	var dial *redisconn.DialError
	switch {
	case errors.As(err, &dial):
		return fmt.Errorf("%w; %w", driver.ErrUnavailable, err)
	case ctx.Err() != nil:
		return fmt.Errorf("%w; %w", ctx.Err(), driver.ErrUncertain)
	case errors.Is(err, rueidis.ErrClosing) && s.calls.Closing.Err() != nil:
		return fmt.Errorf("%w; %w", driver.ErrClosed, driver.ErrUncertain)
	case errors.Is(err, rueidis.ErrNoSlot):
		return unavailable("no node of the cluster serves this name's slot")
	}
	return fmt.Errorf("%w; %w", driver.ErrUncertain, err)
}

// unchangedCodes lists the error codes which prove that the request has changed nothing, each with
// advice. The server checks memory, role and disk before the first write of a script.
var unchangedCodes = []struct{ code, advice string }{
	{"OOM", "it has no memory left; raise maxmemory"},
	{"READONLY", "it refused because it is a replica; padlock connects anew with the next call, since a failover may have " +
		"moved the primary. If it goes on, this is not the address of the primary"},
	{"LOADING", "it is loading its data after a restart"},
	{"NOAUTH", "it wants a password; write redis://:PASSWORD@HOST or redis://USER:PASSWORD@HOST"},
	{"WRONGPASS", "it does not accept the user or the password"},
	{"MASTERDOWN", "it refused because it is a replica without a primary; padlock connects anew with the next call"},
	{"CLUSTERDOWN", "the cluster does not serve this name's slot now"},
	{"TRYAGAIN", "the cluster is moving this name's slot"},
	{"MOVED", "another node of the cluster has this name's slot; open a cluster with redis+cluster:// or Config.Cluster"},
	{"ASK", "the cluster is moving this name's slot"},
	{"CROSSSLOT", "it wants all keys in one slot; is there a proxy in between?"},
	{"BUSY", "it is executing a long script of another program"},
	{"MISCONF", "it cannot save its data, and refuses to write"},
	{"NOREPLICAS", "too few replicas are connected (min-replicas-to-write)"},
	{"NOPROTO", "it does not speak this protocol"},
}

// refusal translates an error reply of the server to an error of package driver.
func refusal(text string) error {
	// The error for an unknown command quotes the command's arguments, which may be tokens and
	// passwords.
	text, _, _ = strings.Cut(text, ", with args")
	text = scriptError(text)
	code, rest, _ := strings.Cut(text, " ")
	switch {
	case code == codeVersion:
		return versionError(rest)
	case code == codeType:
		kind, key, _ := strings.Cut(rest, " ")
		return storekit.Invalidf("name: the key %q holds a %s, which is no lock of this layout; nothing was changed: "+
			"choose another name, or a prefix", key, kind)
	case code == codeBreak:
		return storekit.Invalidf("name: the key %q holds a string that padlock did not write; nothing was changed: "+
			"if it is a lock of another program, delete the key yourself", rest)
	case code == "WRONGTYPE":
		return storekit.Invalidf("name: the key holds something that is no lock of this layout")
	case strings.Contains(text, "DB index is out of range"):
		return storekit.Invalidf("db: the server has no database of that number")
	case strings.Contains(text, "unknown command 'SENTINEL'"):
		return unavailable("it is no sentinel; write redis:// for a server")
	case code == "NOPERM" && !strings.Contains(text, "script"):
		return unavailable("the user lacks a right that the documentation of the store lists: %s", text)
	}
	for _, b := range unchangedCodes {
		if code == b.code {
			return unavailable("%s (%s)", b.advice, code)
		}
	}
	if strings.Contains(text, "unknown command") || strings.Contains(text, "max number of clients") {
		return unavailable("%s", text)
	}
	if strings.Contains(text, "NOPERM") || strings.Contains(text, "can't run this command") {
		return fmt.Errorf("%w: redis: the user lacks a right that the script needs; the documentation of the store lists the rights, and ACL LOG names the missing one: %s", driver.ErrUncertain, text)
	}
	return fmt.Errorf("%w: redis: %s", driver.ErrUncertain, text)
}

// scriptError removes the name of a script and the number of a line from the beginning of an error.
// Redis 6.2 adds them to the error of a command in a script. Redis 7.0 does not.
func scriptError(text string) string {
	// NOPERM keeps this text. It tells refusal that the error came from a script, which may have
	// written something before.
	if !strings.Contains(text, "NOPERM") {
		text = scriptPosition().ReplaceAllString(text, "")
	}
	return text
}

var scriptPosition = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(ERR )?(Error running script \(call to \w+\): )?(@user_script: ?\d+: )+-?`)
})

// versionError is the error for a name whose note has a flag that this version of padlock does not
// know: a later version has written the note, or the note is damaged.
func versionError(flag string) error {
	if v := versionOf(flag); v > noteVersion {
		return unavailable("a newer padlock has used this name, with notes of version %d; this one knows version %d: "+
			"upgrade this program, or stop the newer one and wait until its notes have expired", v, noteVersion)
	}
	return unavailable("the note of this name is damaged: it begins with %q; delete the note", flag)
}

// unconnected returns advice about a connection that could not be made, or "".
func (s *Store) unconnected(err error) string {
	secure := s.server.TLS != nil
	var connecting *net.OpError
	var misnamed x509.HostnameError
	var untrusted *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	switch {
	case errors.As(err, &connecting) && connecting.Op == "dial":
		return ""
	case errors.As(err, &misnamed):
		return "its certificate is for another name than the address; write that name with server-name=HOST"
	case errors.As(err, &untrusted):
		return "its certificate is not trusted; name its authority with ca=FILE"
	case errors.As(err, &noTLS):
		return "it does not speak TLS; write redis:// for a connection without"
	case strings.Contains(err.Error(), "unknown message type"):
		return "what listens there does not speak Redis' protocol"
	case secure && errors.Is(err, context.DeadlineExceeded):
		return "it does not answer; if it does not speak TLS, write redis:// for a connection without"
	case !secure && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)):
		return "it ended the connection at once; if it wants TLS, write rediss://"
	}
	return ""
}
