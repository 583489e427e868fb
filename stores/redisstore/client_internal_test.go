package redisstore

import (
	"testing"

	"github.com/padlock-go/padlock/internal/redisconn"
	"github.com/redis/rueidis"
)

// While a server is frozen, a request that finds no room in its connection ignores its context. So
// a thousand callers must find room.
func TestRoomForRequests(t *testing.T) {
	s := Store{server: &redisconn.Server{}}
	if scale := s.clientOption().RingScaleEachConn; scale != 0 && scale < rueidis.DefaultRingScale || rueidis.DefaultRingScale < 10 {
		t.Errorf("a connection has room for 1 << %d requests, or by default for 1 << %d", scale, rueidis.DefaultRingScale)
	}
}
