package sessiontest_test

import (
	"testing"

	"github.com/padlock-go/padlock/session"
	"github.com/padlock-go/padlock/session/phpcodec"
	"github.com/padlock-go/padlock/session/sessiontest"
)

func same(s session.Store) func() (session.Store, error) {
	return func() (session.Store, error) { return s, nil }
}

func TestMemory(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(session.NewMemory())})
}

func TestPacked(t *testing.T) {
	sessiontest.Run(t, sessiontest.Harness{Open: same(session.FromBlobs(sessiontest.NewBlobs(), session.Packed(), session.Traits{}))})
}

func TestPHP(t *testing.T) {
	encode := func(v any) []byte { b, _ := session.PHPCodec().Marshal(v); return b }
	for _, h := range []phpcodec.Handler{phpcodec.PHP, phpcodec.PHPSerialize, phpcodec.PHPBinary} {
		t.Run(string(h), func(t *testing.T) {
			sessiontest.Run(t, sessiontest.Harness{
				Open:   same(session.FromBlobs(sessiontest.NewBlobs(), session.PHPFormat(h), session.Traits{NoDeadline: true, CommitsNeedLock: true})),
				Encode: encode,
				Keys:   []string{"k", "é", "with space", "a:b", "\x00", "{x}", "'", `"\`, "05", "%s"},
			})
		})
	}
}
