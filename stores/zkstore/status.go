package zkstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Status implements driver.Reporter. It asks every server for its version and mode.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	return runOp(ctx, s, func() ([]driver.Finding, error) {
		ss, err := s.session(ctx)
		if err != nil {
			return nil, err
		}
		found := []driver.Finding{s.timeoutFinding(ss)}
		found = append(found, s.serverFindings(ctx)...)
		return append(found, s.aclFinding(ss)), nil
	})
}

func (s *Store) timeoutFinding(ss *session) driver.Finding {
	got := ss.known.length()
	f := driver.Finding{Name: "session-timeout", Value: got.String()}
	if got != s.cfg.timeout {
		f.Advice = fmt.Sprintf("%v was asked for; the servers allow minSessionTimeout to maxSessionTimeout, by default 2 to 20 ticks", s.cfg.timeout)
	}
	return f
}

// serverFindings asks each server of the configuration.
func (s *Store) serverFindings(ctx context.Context) []driver.Finding {
	servers := s.cfg.servers
	answers := make([]string, len(servers))
	_ = forEach(len(servers), func(i int) error {
		answers[i] = s.askServer(ctx, servers[i])
		return nil
	})
	var found []driver.Finding
	for i, text := range answers {
		version, _, _ := strings.Cut(field(text, "Zookeeper version: "), "-")
		v := driver.Finding{Name: servers[i] + " version", Value: cmp.Or(version, driver.Unknown)}
		if storekit.OlderVersion(version, 3, 5) {
			v.Advice = "versions before 3.5 are not tested with padlock; upgrade"
		}
		m := driver.Finding{Name: servers[i] + " member", Value: field(text, "Mode: ")}
		switch {
		case text == "":
			m.Value, m.Advice = driver.Unknown, "the server does not answer srvr; start it, or allow srvr in 4lw.commands.whitelist"
			v.Advice = m.Advice
		case m.Value == "":
			m.Value, m.Advice = "not serving", "the server has no leader; start the others"
		case m.Value == "standalone":
			m.Advice = "run three servers"
		}
		found = append(found, v, m)
	}
	if len(servers) == 1 && !strings.Contains(answers[0], "standalone") {
		found = append(found, driver.Finding{Name: "servers", Value: "1", Advice: "name every member of the ensemble, so that the store finds another one when this one is down"})
	}
	return found
}

// askServer sends the command srvr to a server, and returns the answer. It returns "" if there is
// none.
func (s *Store) askServer(ctx context.Context, server string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := s.cfg.dial(ctx, "tcp", server)
	if err != nil {
		return ""
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return ""
	}
	text, _ := io.ReadAll(io.LimitReader(conn, 1<<16)) // a part of the answer is enough
	return string(text)
}

// field returns the rest of the line that begins with the given name.
func field(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// aclFinding makes a node that nobody may read, and tries to read it.
func (s *Store) aclFinding(ss *session) driver.Finding {
	f := driver.Finding{Name: "skipACL", Value: driver.Unknown, Advice: "allow the user to make nodes below the root"}
	if s.cfg.credentials == nil {
		f.Value, f.Advice = "no login", "everybody who reaches the servers can change locks; log in with USER:PASSWORD@ in the URL, so that nodes belong to that user"
		return f
	}
	guid := newGUID()
	if err := ss.makeNode(s.cfg.root); err != nil {
		return f
	}
	probe := path.Join(s.cfg.root, "%probe-"+guid) // escape never returns such a name
	if _, err := ss.conn.Create(probe, nil, zk.FlagEphemeral, zk.DigestACL(zk.PermWrite, guid, guid)); err != nil {
		return f
	}
	defer ss.conn.Delete(probe, -1)
	switch _, _, err := ss.conn.Get(probe); err {
	case nil:
		f.Value, f.Advice = "yes", "the servers check no ACL, so everybody can change locks; start them without -Dzookeeper.skipACL=yes"
	case zk.ErrNoAuth:
		f.Value, f.Advice = "no", ""
	}
	return f
}
