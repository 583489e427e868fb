package all_test

import (
	"context"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// canary is the password that must not appear anywhere. It begins with a digit, because after an
// unescaped delimiter it then looks like the beginning of a port.
const canary = "31415canary"

// secretURLs are URLs of every scheme, padlock's and PHP's, with a password where one may stand, or
// where a mistake may put one.
func secretURLs() []string {
	schemes := append(names(), "nowhere", "redis", "rediss", "postgres", "mysql", "pgsql", "symfony+redis", "flock")
	var urls []string
	for _, s := range schemes {
		urls = append(urls,
			s+"://user:"+canary+"@host/path",
			s+"://"+canary+"@host/path",
			s+"://:"+canary+"@host:port/path",
			s+"://user:"+canary+"@/path?unknown=1",
			s+"://host/path?password="+canary,
			s+"://host/path?auth[]="+canary+"&x=%zz",
			s+":?host[localhost]&auth="+canary,
			s+":host=localhost;password="+canary,
			// delimiters in a password, not escaped
			s+"://user:1/"+canary+"@host/path",
			s+"://user:1?"+canary+"@host/path",
			s+"://user:1#"+canary+"@host/path",
			s+"://user:%"+canary+"@host/path",
			s+"://:pa@"+canary+"@host:6379",
		)
	}
	for _, s := range schemes {
		if strings.Contains(s, "file") || strings.Contains(s, "flock") {
			continue // there it is the name of a directory
		}
		urls = append(urls, // a slash too many or too few
			s+":/:"+canary+"@host:6379",
			s+":///:"+canary+"@host:6379",
			s+":///user:"+canary+"@host/0",
			s+":/user:"+canary+"@host/0",
		)
	}
	for _, member := range urls {
		urls = append(urls, "quorum:?store="+url.QueryEscape(member), "all:?store="+member)
	}
	return append(urls, canary, "user:"+canary+"@host", "//user:"+canary+"@host/path", "/user:"+canary+"@host")
}

func TestSecretsStaySecret(t *testing.T) {
	server.Thorough(t)
	var wg sync.WaitGroup
	defer wg.Wait()
	turns := make(chan struct{}, 16) // most of the time passes in waits for servers
	for _, rawURL := range secretURLs() {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			staySecret(t, rawURL)
		})
	}
}

func staySecret(t *testing.T, rawURL string) {
	if shown := open.Redacted(rawURL, every()); strings.Contains(shown, canary) {
		t.Errorf("Redacted(%q) = %q", rawURL, shown)
	}
	store, err := all.Store(t.Context(), rawURL)
	if err != nil && strings.Contains(err.Error(), canary) {
		t.Errorf("%q: %v", rawURL, err)
	}
	if store != nil {
		firstUse(t, rawURL, store)
	}
}

// firstUse uses a store that opens without its server. The error comes then, and must not have the
// secret either.
func firstUse(t *testing.T, rawURL string, store driver.Store) {
	l := padlock.New(store)
	defer func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // a name server may be slow
		defer cancel()
		l.Close(ctx)
	}()
	_, err := l.TryAcquire(t.Context(), "name")
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("%q was opened, and its use: %v", rawURL, err)
	}
}

func TestRedactedShowsTheRest(t *testing.T) {
	for rawURL, want := range map[string]string{
		"file:///var/lib/locks?world=yes":             "file:///var/lib/locks",
		"redis://user:" + canary + "@host:6379/0?x=y": "redis://host:6379/0",
		"memory:": "memory:",
		"all:?store=file:///a&store=redis://:" + canary + "@host": "all of file:///a, redis://host",
		"rubbish": "a store whose URL cannot be read",
	} {
		if got := open.Redacted(rawURL, every()); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", rawURL, got, want)
		}
	}
}
