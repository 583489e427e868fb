package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/lab/certificate"
	"github.com/padlock-go/padlock/open/all"
)

// certified runs padlock-verify --certify, checks its exit status, and returns the certificate.
func certified(t *testing.T, status int, what, url string, args ...string) *certificate.Certificate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "certificate.json")
	out, _ := verify(t, status, what, append([]string{"--store", url, "--certify", path, "--for", "3s"}, args...)...)
	c, err := certificate.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := verify(t, 0, "verify", "show", path); again != out {
		t.Errorf("show prints\n%s\nand --certify printed\n%s", again, out)
	}
	return c
}

// questions returns the verdicts of a certificate by question.
func questions(c *certificate.Certificate) map[string]certificate.Verdict {
	all := map[string]certificate.Verdict{}
	for _, q := range c.Questions {
		all[q.Name] = q.Verdict
	}
	return all
}

// A healthy store: each question has the verdict held, or says why it was not asked. What was there
// before stays, and nothing is added.
func TestCertifyFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("Not a lock.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	c := certified(t, 0, "verify", "file://"+dir)
	if after := contents(t, dir); !maps.Equal(before, after) {
		t.Errorf("the directory had\n%q, and has\n%q", before, after)
	}
	got := questions(c)
	for name, want := range map[string]certificate.Verdict{
		"open": certificate.Held, "conditions/2": certificate.Held, "conditions/16": certificate.Held, "reads/after-write": certificate.Held,
		"clock/now": certificate.Held, "writes/16": certificate.NotAsked, "acquire/repeat": certificate.Held, "restart/keeps-holds": certificate.NotAsked,
		"soak": certificate.Held, "soak/I1": certificate.Held, "soak/linear": certificate.Held,
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for _, q := range c.Questions {
		if q.Verdict == certificate.NotAsked && q.Why == "" {
			t.Errorf("%s does not say why it was not asked", q.Name)
		}
	}
}

// A store that gives every holder the same fence.
func TestCertifyBroken(t *testing.T) {
	c := certified(t, 1, "broken", "file://"+t.TempDir())
	for _, name := range []string{"conditions/2", "fence/grows"} {
		if got := questions(c)[name]; got != certificate.Broke {
			t.Errorf("%s: %q", name, got)
		}
	}
	for _, q := range c.Questions {
		if q.Verdict == certificate.Broke && (len(q.Seen) == 0 || q.Repeat == "") {
			t.Errorf("%+v does not say how it broke, or how to repeat it", q)
		}
	}
}

// The certificate has no password, and the setting that drops locks is found.
func TestCertifyRedisThatEvicts(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{Password: "canary", Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"}})
	path := filepath.Join(t.TempDir(), "certificate.json")
	out, told := verify(t, 1, "verify", "--store", srv.URL(), "--certify", path, "--for", "2s")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prints(t, out, "^BROKE  settings/maxmemory-policy: ", "^ +seen: +maxmemory-policy is allkeys-lru", "not: canary")
	prints(t, string(data)+told, "not: canary")
}

// At its end, a certification removes its own keys from Redis, and no others.
func TestRemoveKeys(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{Password: "canary"})
	ask := redisCLI(t, strings.Replace(srv.URL(), "//:", "//default:", 1)) // redis-cli sends an empty user otherwise
	const own = "padlock-verify-AAAA"
	for _, key := range []string{own + "-1:a", "padlock:{abc}f:" + own + "-probe:b *", "padlock-verify-BBBB-probe:a", "deploy"} {
		ask("set", key, "1")
	}
	c := &certification{verification: &verification{url: srv.URL() + "?lazy=yes", base: own}, paper: &certificate.Certificate{Kind: "redis"}}
	c.noteLeft(t.Context())
	if c.paper.Left != "" || c.paper.Names != own {
		t.Errorf("%q is left of %q", c.paper.Left, c.paper.Names)
	}
	if left := strings.Fields(ask("keys", "*")); len(left) != 2 || !slices.Contains(left, "deploy") || !slices.Contains(left, "padlock-verify-BBBB-probe:a") {
		t.Errorf("the server has %q", left)
	}
	if c.noteLeft(t.Context()); c.paper.Left != redisStays {
		t.Errorf("no key was found, and the certificate says %q", c.paper.Left)
	}
}

// A certificate of each kind of store says what stays.
func TestStays(t *testing.T) {
	for _, s := range all.Schemes() {
		if s.Guarantees == nil || s.InProcess {
			continue
		}
		if _, ok := stays[s.Guarantees().Store]; !ok {
			t.Errorf("nothing is said about %s", s.Guarantees().Store)
		}
	}
}

func TestShowRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, told := verify(t, 70, "verify", "show", path)
	prints(t, told, "other.json: it is no certificate")
	_, told = verify(t, 64, "verify", "show")
	prints(t, told, "name one file")
}
