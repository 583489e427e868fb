package all_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// A password in a file opens the store everywhere that a URL can stand, and is not shown.
func TestPasswordFile(t *testing.T) {
	srv := server.Redis(t, server.RedisOptions{Password: canary})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(canary+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	alone := "redis://" + srv.Addr() + "?password-file=" + url.QueryEscape(file)
	member := url.QueryEscape(alone + "&prefix=")
	for _, rawURL := range []string{
		alone,
		"symfony+" + alone,
		"quorum:?store=" + member + "a:&store=" + member + "b:&store=" + member + "c:",
		"all:?store=" + member + "d:&store=" + member + "e:",
	} {
		if shown := open.Redacted(rawURL, every()); strings.Contains(shown, "password") {
			t.Errorf("Redacted(%q) = %q", rawURL, shown)
		}
		l := locker(t, rawURL)
		if err := l.Do(t.Context(), "name", func(context.Context) error { return nil }); err != nil {
			t.Errorf("%s: %v", rawURL, err)
		}
	}
	_, err := all.Store(t.Context(), strings.Replace(alone, "//", "//:"+canary+"@", 1))
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("a password and a file: %v", err)
	}
}
