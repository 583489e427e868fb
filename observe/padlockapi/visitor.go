package padlockapi

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// right is what an operation needs.
type right int

const (
	rightRead right = iota
	rightAcquire
	rightBreak
)

func (r right) String() string { return [...]string{"read", "acquire", "break"}[r] }

func (v *Visitor) may(r right) bool { return [...]bool{v.Read, v.Acquire, v.Break}[r] }

// hasRule reports whether an option says what visitors may do.
func (s *settings) hasRule() bool { return s.tokens != nil || s.authorize != nil || s.open }

const noRule = "nobody may take locks here: the server has no rule for it; its program must give padlockapi.Accept, Authorize or WithoutToken, and none of them with nil"

// admit finds out who sent the request, and whether the visitor has the right for the operation.
//
// A wrong token costs the sender nothing but the answer, and never delays a right one: tokens are
// too long to be guessed, and a limit would let anybody behind the same proxy lock out all others.
func (q *query) admit() reply {
	sent := false
	q.who, sent = q.api.visitor(q.r)
	q.client = "address " + q.from
	if q.who.Name != "" {
		q.client = "token " + q.who.Name
	}
	need := q.op.right
	switch {
	case q.who.Tenant && q.who.Prefix == "":
		q.refused("the visitor is a tenant without a prefix")
		return refuse(http.StatusForbidden, "forbidden", "a tenant needs a prefix; the rule of the server gives none")
	case !q.api.hasRule():
		q.refused("the server has no rule")
		return refuse(http.StatusForbidden, "forbidden", noRule)
	case q.who.may(need) && need != rightBreak:
		return reply{}
	case need == rightBreak && q.who.Break && q.who.Name != "":
		if q.api.allowBreak {
			return reply{}
		}
		q.refused("breaks are not allowed here")
		return refuse(http.StatusForbidden, "forbidden", "this server breaks no locks; see --allow-break of padlock serve, or padlockapi.AllowBreak")
	case sent && q.who == (Visitor{}):
		q.refused("the token is wrong")
		return refuse(http.StatusUnauthorized, "unauthorized", "the token in the header Authorization is not valid here")
	case !sent && q.api.tokens != nil:
		return refuse(http.StatusUnauthorized, "unauthorized", "send a token in the header Authorization: Bearer")
	}
	q.refused("the right " + need.String() + " is missing")
	return refuse(http.StatusForbidden, "forbidden", "the right "+need.String()+" is needed")
}

// visitor returns the sender of a request, and whether the request has a token.
func (a *API) visitor(r *http.Request) (v Visitor, sent bool) {
	if a.authorize != nil {
		return a.authorize(r), false
	}
	scheme, secret, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if sent = ok && strings.EqualFold(scheme, "Bearer"); sent && a.tokens != nil {
		if err := a.tokens.Refresh(); err != nil {
			a.logger.Error("the token file was not read; the tokens that were read last stay good", "error", err.Error())
		}
		name, rights, prefix, tenant, ok := a.tokens.Find(strings.TrimSpace(secret))
		if !ok {
			return Visitor{}, true
		}
		v = Visitor{Name: name, Prefix: prefix, Tenant: tenant}
		for word := range strings.SplitSeq(rights, ",") {
			v.Read = v.Read || word == "read"
			v.Acquire = v.Acquire || word == "acquire"
			v.Break = v.Break || word == "break"
		}
		return v, true
	}
	if a.open {
		v = Visitor{Read: true, Acquire: true}
	}
	return v, false
}

// checkName refuses a name, or a prefix to list, that is not one of the visitor's.
func (q *query) checkName() reply {
	text := q.name
	if q.op.path == "/v1/list" {
		text = q.prefix
	}
	if q.who.Tenant || strings.HasPrefix(text, q.who.Prefix) {
		return reply{}
	}
	q.refused("the name is not one of the visitor's", slog.String("name", text), slog.String("prefix", q.who.Prefix))
	return refuse(http.StatusForbidden, "forbidden", "the token is for names that begin with another prefix")
}

// refused writes a record for a request that was not allowed.
func (q *query) refused(why string, more ...slog.Attr) {
	q.audit(slog.LevelWarn, "refused", append([]slog.Attr{slog.String("why", why)}, more...)...)
}

// audit writes a record about a request. Anybody can cause records of refused requests, so their
// number is limited.
func (q *query) audit(level slog.Level, event string, more ...slog.Attr) {
	attrs := []slog.Attr{slog.String("token", q.who.Name), slog.String("from", q.from), slog.String("path", q.op.path)}
	if q.who.Tenant {
		attrs = append(attrs, slog.String("tenant", q.who.Prefix))
	}
	if level == slog.LevelWarn {
		ok, left := q.api.records.next(time.Now().Unix())
		if !ok {
			return
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("left_out", left))
		}
	}
	q.api.logger.LogAttrs(q.r.Context(), level, event, append(attrs, more...)...)
}

// recordLimit limits how many refused requests are written to the audit log: perSecond in each
// second.
type recordLimit struct {
	mu      sync.Mutex
	at      int64 // a time in seconds
	written int   // how many records were written at that time
	left    int   // left out since the last written record
}

const perSecond = 20

func (c *recordLimit) next(now int64) (ok bool, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at != now {
		c.at, c.written = now, 0
	}
	if c.written >= perSecond {
		c.left++
		return false, 0
	}
	c.written++
	left, c.left = c.left, 0
	return true, left
}

// hostAllowed reports whether the request's Host header names this server. In an attack by DNS
// rebinding, the header has a host name of the attacker.
func (a *API) hostAllowed(r *http.Request) bool {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if a.hosts["*"] || a.hosts == nil && !loopback(at) {
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
	return host == "localhost" || a.hosts[host]
}

func loopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	_, unix := at.(*net.UnixAddr)
	return unix || ok && tcp.IP.IsLoopback()
}

// clientAddress returns the address of a client without its port, for limits and the audit log. A
// client with IPv6 usually has a whole network of 64 bits.
func clientAddress(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if network, err := ip.Prefix(64); err == nil {
			return network.String()
		}
	}
	return ip.String()
}
