package etcdstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// A lease is what the store knows about a lease of etcd. Such a lease lasts a whole number of
// seconds, and making it takes a request. To save requests, holds that are granted within a few
// seconds get the same lease; see extraSeconds. The store never renews the first lease of a hold.
// So a hold that nobody extends ends with its first lease.
type lease struct {
	id   clientv3.LeaseID
	from driver.Instant // when the request that made or renewed the lease was sent
	end  driver.Instant // the earliest time at which the lease may end
}

// leases makes and keeps the leases that new holds get.
type leases struct {
	conn   *connection
	clock  driver.Clock
	prefix string
	turn   chan struct{} // held while a lease is made

	mu     sync.Mutex
	spare  map[int64]*lease // by length in seconds
	keeper clientv3.LeaseID // the lease of the stored fences
	day    int64            // the day for which keeper was made
}

func newLeases(conn *connection, cfg *config) *leases {
	return &leases{conn: conn, clock: cfg.clock, prefix: cfg.prefix, turn: make(chan struct{}, 1), spare: make(map[int64]*lease)}
}

// seconds returns d in seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// extraSeconds returns how many seconds the store adds to the first lease of a hold. Other holds
// that begin during these seconds can share the lease. The result is at most 10, because a dead
// holder's lock stays taken until the lease ends.
func extraSeconds(length int64) int64 { return min(length/4, 10) }

// grant makes a new lease.
func (s *leases) grant(ctx context.Context, length int64) (*lease, error) {
	from := s.clock.Now()
	id, ttl, err := s.conn.grantLease(ctx, 0, length)
	if err != nil {
		return nil, err
	}
	return &lease{id: id, from: from, end: from.Add(time.Duration(ttl) * time.Second)}, nil
}

// renew renews a lease. If the lease is gone, isLeaseGone recognises the error.
func (s *leases) renew(ctx context.Context, id clientv3.LeaseID) (*lease, error) {
	from := s.clock.Now()
	ttl, err := s.conn.keepAlive(ctx, id)
	if err != nil {
		return nil, err
	}
	return &lease{id: id, from: from, end: from.Add(time.Duration(ttl) * time.Second)}, nil
}

// forHold returns a lease for a new hold. From now on, the lease lasts at least for ttl.
func (s *leases) forHold(ctx context.Context, ttl time.Duration) (*lease, error) {
	length := seconds(ttl)
	if l := s.known(length, ttl); l != nil {
		return l, nil
	}
	if err := storekit.Await(ctx, s.turn); err != nil {
		return nil, failure(ctx, err, false)
	}
	defer func() { <-s.turn }()
	if l := s.known(length, ttl); l != nil {
		return l, nil
	}
	l, err := s.grant(ctx, length+extraSeconds(length))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spare[length] = l
	return l, nil
}

func (s *leases) known(length int64, ttl time.Duration) *lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.spare[length]; l != nil && l.end >= s.clock.Now().Add(ttl) {
		return l
	}
	return nil
}

const (
	secondsPerDay = 24 * 60 * 60
	// keepFences is how many days the server keeps a fence after its last use. After that the store
	// does not need it: fences follow the clock, so a new fence is greater anyway.
	keepFences = 7
)

// forFence returns the lease for the keys of stored fences. There is one such lease for each day.
// All programs compute its number from the day, so they use the same lease.
func (s *leases) forFence(ctx context.Context) (clientv3.LeaseID, error) {
	day := time.Now().Unix() / secondsPerDay
	s.mu.Lock()
	id := s.keeper
	known := id != 0 && s.day == day
	s.mu.Unlock()
	if known {
		return id, nil
	}
	id = keeperID(s.prefix, day)
	if _, _, err := s.conn.grantLease(ctx, id, (keepFences+1)*secondsPerDay); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keeper, s.day = id, day
	return id, nil
}

// putFence returns the operation that stores a fence. If the fence is more than a day ahead of the
// clock, it is stored without a lease and is kept for ever.
func putFence(p *nameKeys, fence uint64, keeper clientv3.LeaseID) *pb.RequestOp {
	if fence > uint64(time.Now().Add(24*time.Hour).UnixMicro()) {
		keeper = 0
	}
	return putKey(p.fence, fenceText(fence), keeper)
}

func keeperID(prefix string, day int64) clientv3.LeaseID {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("padlock fences "+prefix), uint64(day)))
	return clientv3.LeaseID(binary.BigEndian.Uint64(sum[:8])>>1 | 1)
}

// forget drops all leases that the store has for new holds. It is called when the server has lost
// one of them, for example because it was restarted without its data.
func (s *leases) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.spare)
	s.keeper = 0
}
