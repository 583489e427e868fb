package padlockapi

import (
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver/fast"
)

// right is what an operation needs.
type right int

const (
	rightRead right = iota
	rightAcquire
	rightBreak
	rightAsk
	rightAny // one of them
)

func (r right) String() string {
	return [...]string{"read", "acquire", "break", "ask", "read or acquire"}[r]
}

func (v *Visitor) may(r right) bool {
	return [...]bool{v.Read, v.Acquire, v.Break, v.Ask, v.Read || v.Acquire || v.Break || v.Ask}[r]
}

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
			v.Ask = v.Ask || word == "ask"
		}
		return v, true
	}
	if a.open {
		v = Visitor{Read: true, Acquire: true, Ask: true}
	}
	return v, false
}

// checkName refuses a name, or a prefix to list, that is not one of the visitor's.
func (q *query) checkName() reply {
	text := q.name
	switch q.op.path {
	case "/v1/list":
		text = q.prefix
	case "/v1/store": // has no name
		return reply{}
	}
	if q.who.Tenant || strings.HasPrefix(text, q.who.Prefix) {
		return q.checkQuestion()
	}
	q.refused("the name is not one of the visitor's", slog.String("name", text), slog.String("prefix", q.who.Prefix))
	return refuse(http.StatusForbidden, "forbidden", "the token is for names that begin with another prefix")
}

// checkQuestion refuses a visitor without the right to ask who would take, or end, the lock that
// keeps a question: see fast.AskName. Everybody who may read may look at it.
func (q *query) checkQuestion() reply {
	stored := q.name
	if q.who.Tenant {
		stored = q.who.Prefix + q.name
	}
	if _, question := fast.SplitAsk(stored); !question || q.op.right == rightRead || q.who.Ask {
		return reply{}
	}
	q.refused("the right ask is missing", slog.String("name", q.name))
	return refuse(http.StatusForbidden, "forbidden", "the name is that of a question to a holder, and the right ask is needed")
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
		ok, left := q.api.records.Next(time.Now().Unix())
		if !ok {
			return
		}
		if left > 0 {
			attrs = append(attrs, slog.Int("left_out", left))
		}
	}
	q.api.logger.LogAttrs(q.r.Context(), level, event, append(attrs, more...)...)
}
