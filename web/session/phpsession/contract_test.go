package phpsession_test

import (
	"testing"

	"github.com/padlock-go/padlock/web/session/phpcodec"
	"github.com/padlock-go/padlock/web/session/phpsession"
	"github.com/padlock-go/padlock/web/session/sessionstore"
	"github.com/padlock-go/padlock/web/session/sessiontest"
)

// TestContract: sessions in each of PHP's formats keep the contract of a Store.
func TestContract(t *testing.T) {
	encode := func(v any) []byte { b, _ := phpsession.Codec().Marshal(v); return b }
	for _, h := range []phpcodec.Handler{phpcodec.PHP, phpcodec.PHPSerialize, phpcodec.PHPBinary} {
		t.Run(string(h), func(t *testing.T) {
			store := sessionstore.FromBlobs(sessiontest.NewBlobs(), phpsession.Format(h), sessionstore.Traits{NoDeadline: true, CommitsNeedLock: true})
			sessiontest.Run(t, sessiontest.Harness{
				Open:   func() (sessionstore.Store, error) { return store, nil },
				Encode: encode,
				Keys:   []string{"k", "é", "with space", "a:b", "{x}", "'", `"\`, "05", "%s"},
			})
		})
	}
}
