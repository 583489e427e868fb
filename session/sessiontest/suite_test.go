package sessiontest_test

import (
	"testing"

	"github.com/padlock-go/padlock/session/phpcodec"
	"github.com/padlock-go/padlock/session/phpsession"
	"github.com/padlock-go/padlock/session/sessionstore"
	"github.com/padlock-go/padlock/session/sessiontest"
)

func same(s sessionstore.Store) func() (sessionstore.Store, error) {
	return func() (sessionstore.Store, error) { return s, nil }
}

func TestMemory(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(sessionstore.NewMemory())})
}

func TestPacked(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(sessionstore.FromBlobs(sessiontest.NewBlobs(), sessionstore.Packed(), sessionstore.Traits{}))})
}

func TestPHP(t *testing.T) {
	encode := func(v any) []byte { b, _ := phpsession.Codec().Marshal(v); return b }
	for _, h := range []phpcodec.Handler{phpcodec.PHP, phpcodec.PHPSerialize, phpcodec.PHPBinary} {
		t.Run(string(h), func(t *testing.T) {
			sessiontest.Run(t, sessiontest.Harness{
				Open:   same(sessionstore.FromBlobs(sessiontest.NewBlobs(), phpsession.Format(h), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})),
				Encode: encode,
				Keys:   []string{"k", "é", "with space", "a:b", "\x00", "{x}", "'", `"\`, "05", "%s"},
			})
		})
	}
}
