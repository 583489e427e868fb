package memcachestore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/memcachestore"
)

func TestAnotherServer(t *testing.T) {
	t.Parallel()
	_, err := memcachestore.Open(t.Context(), memcachestore.Config{Addr: server.Redis(t, server.RedisOptions{}).Addr()})
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "is not memcached") {
		t.Errorf("at a Redis server: %v", err)
	}
}
