package memcachestore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

// The comment of Prefix says this range. Open checks it before it connects.
func TestRangeOfPrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": true, "shop:": true, strings.Repeat("p", 100): true, strings.Repeat("p", 101): false, "a b": false, "é": false,
	} {
		s, err := memcachestore.Open(t.Context(), memcachestore.Config{Addr: "127.0.0.1:1"}, memcachestore.Lazy(), memcachestore.Prefix(prefix))
		if (err == nil) != valid || err != nil && !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("prefix %q: %v", prefix, err)
		}
		if err == nil {
			s.Close()
		}
	}
}
