package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

var every = open.Schemes(all.Schemes()...)

// resultOf returns the result of a check, and fails the test if the check was not made exactly
// once.
func resultOf(t *testing.T, found []Finding, check string) Finding {
	t.Helper()
	var hits []Finding
	for _, f := range found {
		if f.Check == check {
			hits = append(hits, f)
		}
		if (f.State == Good) != (f.Why == "" && f.Do == "") || f.Seen == "" {
			t.Errorf("%s, %s: a finding that is not good says why and what to do: %+v", f.Check, f.State, f)
		}
	}
	if len(hits) != 1 {
		t.Fatalf("%s was checked %d times: %+v", check, len(hits), found)
	}
	return hits[0]
}

func TestNetwork(t *testing.T) {
	for url, want := range map[string]State{
		"redis://localhost":                                Good,
		"redis+cluster://127.0.0.1,127.0.0.2:7000":         Good,
		"redis://[::1]:6379":                               Good,
		"redis+unix:///run/redis.sock":                     Good,
		"rediss://user:canary@db7":                         Good,
		"redis://user:canary@db7?tls=yes":                  Good,
		"redis://user:canary@db7":                          Problem,
		"redis+cluster://user:canary@127.0.0.1,db7":        Problem,
		"rediss://user:canary@localhost?tls-verify=no":     Problem,
		"redis+sentinel://:canary@10.0.0.1,10.0.0.2/locks": Problem,
		"s3://bucket":                                      Good,
	} {
		v := &visit{Options: Options{Schemes: every}, place: placeOf(url, every)}
		v.network()
		if f := resultOf(t, v.found, "network"); f.State != want || strings.Contains(f.Seen, "canary") {
			t.Errorf("%s: %+v", url, f)
		} else if strings.Contains(f.Seen, "socket") != strings.Contains(url, "unix") {
			t.Errorf("%s: %+v", url, f)
		}
		if len(v.found) != 1 {
			t.Errorf("%s: %+v", url, v.found[1:])
		}
	}
	v := &visit{Options: Options{Schemes: every}, place: placeOf("rediss://db7", every)}
	v.network()
	if resultOf(t, v.found, "password").State != Problem {
		t.Error("no password to another machine is no problem")
	}
}

// disk is a simulated system: directories, links (by mode), and one kind of file system.
type disk struct {
	fstest.MapFS
	links map[string]string
	kind  string
	left  space
}

func (d disk) Lstat(path string) (fs.FileInfo, error) {
	if d.links[path] != "" {
		return link{}, nil
	}
	return d.Stat(strings.TrimPrefix(path, "/"))
}

func (d disk) Readlink(path string) (string, error) { return d.links[path], nil }
func (d disk) On(string) (string, space)            { return d.kind, d.left }

type link struct{ fs.FileInfo }

func (link) Mode() fs.FileMode { return fs.ModeSymlink }

func TestDirectory(t *testing.T) {
	roomy := space{bytes: 1 << 30, files: 1000}
	there := fstest.MapFS{}
	for _, d := range []string{"var/lib/locks", "tmp/locks", "srv/app/current/locks", "run/user/1000", "var/tmp"} {
		there[d] = &fstest.MapFile{Mode: fs.ModeDir | 0o700}
	}
	for _, c := range []struct {
		dir, check string
		kind       string
		left       space
		want       State
		seen       string
	}{
		{"/var/lib/locks", "file-system", "ext4", roomy, Good, "ext4"},
		{"/var/lib/locks", "file-system", "nfs", roomy, Problem, "nfs"},
		{"/var/lib/locks", "file-system", "cifs", roomy, Problem, "cifs"},
		{"/var/lib/locks", "file-system", "overlay", roomy, Problem, "container"},
		{"/var/lib/locks", "file-system", "tmpfs", roomy, Problem, "in memory"},
		{"/var/lib/locks", "file-system", "", roomy, Unknown, "unknown"},
		{"/var/lib/locks", "room", "ext4", roomy, Good, "1024 MB"},
		{"/var/lib/locks", "room", "ext4", space{bytes: 100, files: 1000}, Problem, "100 bytes"},
		{"/var/lib/locks", "room", "ext4", space{bytes: 1 << 30}, Problem, "0 files"},
		{"/var/lib/locks", "room", "ext4", space{bytes: 1 << 30, files: 9, readOnly: true}, Problem, "read-only"},
		{"/var/lib/locks", "room", "", space{bytes: -1, files: -1}, Unknown, "unknown"},
		{"/var/lib/locks", "cleaners", "ext4", roomy, Good, ""},
		{"/tmp/locks", "cleaners", "ext4", roomy, Problem, "below /tmp"},
		{"/var/tmp", "cleaners", "ext4", roomy, Problem, "systemd-tmpfiles"},
		{"/run/user/1000", "cleaners", "tmpfs", roomy, Problem, "last logout"},
		{"/srv/app/current/locks", "path", "ext4", roomy, Problem, "/srv/app/current is a symbolic link to releases/42"},
		{"/var/lib/locks", "path", "ext4", roomy, Good, ""},
		{"/var/lib/nowhere", "directory", "ext4", roomy, Problem, "file does not exist"},
	} {
		v := &visit{Options: Options{Schemes: every}, place: placeOf("file://"+c.dir, every)}
		v.directory(disk{there, map[string]string{"/srv/app/current": "releases/42"}, c.kind, c.left})
		if f := resultOf(t, v.found, c.check); f.State != c.want || !strings.Contains(f.Seen, c.seen) {
			t.Errorf("%s on %s: %+v; want %s, %q", c.dir, c.kind, f, c.want, c.seen)
		}
	}
}

func TestMembers(t *testing.T) {
	three := []string{"redis://a?lazy=yes", "redis://b:1?lazy=yes", "redis://c/2?lazy=yes"}
	for _, c := range []struct {
		scheme  string
		members []string
		want    State
		seen    string
	}{
		{"quorum", three, Good, "3"},
		{"quorum", three[:2], Problem, "2 members"},
		{"quorum", append([]string{"redis://d"}, three...), Problem, "4 members"},
		{"quorum", []string{"redis://a", "redis://b", "redis://a/"}, Problem, "redis://a is a member twice"},
		{"quorum", []string{"redis://a:1", "redis://a:2", "redis://b"}, Problem, "on a"},
		{"all", three[:2], Good, "2"},
	} {
		v := &visit{Options: Options{Schemes: every}, place: placeOf(c.scheme+":", every)}
		v.members(c.members)
		if f := resultOf(t, v.found, "members"); f.State != c.want || !strings.Contains(f.Seen, c.seen) {
			t.Errorf("%s of %v: %+v", c.scheme, c.members, f)
		}
	}
	v := &visit{Options: Options{Schemes: every}, place: placeOf("quorum:", every)}
	v.checkStart(three)
	if len(v.found) != 0 {
		t.Errorf("members that are lazy: %+v", v.found)
	}
	v.checkStart([]string{"redis://:canary@a?lazy=yes", "redis://:canary@b?lazy=no"})
	if f := resultOf(t, v.found, "start"); f.State != Problem || !strings.HasPrefix(f.Seen, "redis://b ") {
		t.Errorf("a member that must be up: %+v", f)
	}
}

// skewed is a store whose server's clock is wrong.
type skewed struct {
	driver.Store
	begin time.Time
	off   time.Duration // by how much the clock is ahead
	rate  float64       // by which fraction the clock is too fast
	stuck uint64        // if not 0, each fence is one more than the last, from here on
	trip  time.Duration // the duration of an acquire
	count *uint64
	grain bool // the clock has whole seconds
}

func (s skewed) Guarantees() driver.Guarantees {
	g := s.Store.Guarantees()
	g.InProcess = false
	return g
}

func (s skewed) Acquire(ctx context.Context, r driver.Request) (driver.Grant, error) {
	<-time.After(s.trip / 2)
	g, err := s.Store.Acquire(ctx, r)
	g.From = 0
	gone := time.Since(s.begin)
	g.Fence = uint64((time.Duration(s.begin.UnixNano()) + gone + time.Duration(float64(gone)*s.rate) + s.off).Microseconds())
	if s.stuck > 0 {
		*s.count++
		g.Fence = s.stuck + *s.count
	}
	if s.grain {
		*s.count++
		g.Fence += *s.count - g.Fence%1_000_000
	}
	<-time.After(s.trip / 2)
	return g, err
}

// Extend does not return the fence, which would be that of the memory.
func (s skewed) Extend(ctx context.Context, name, token string, ttl time.Duration) (driver.Grant, error) {
	g, err := s.Store.Extend(ctx, name, token, ttl)
	g.Fence = 0
	return g, err
}

// In a table, a waiter has the time of a reservation to claim the lock. Redis gives more time to a
// waiter that is far away.
func TestRoundTripsOfWaiters(t *testing.T) {
	for _, c := range []struct {
		url  string
		trip time.Duration
		want State
		seen string
	}{
		{"postgres://h/d", 100 * time.Millisecond, Good, "100ms usually"},
		{"postgres://h/d", 300 * time.Millisecond, Problem, "never get it"},
		{"mariadb://h/d", 600 * time.Millisecond, Problem, "never get it"},
		{"mysql://h/d", 900 * time.Millisecond, Problem, "never get it"},
		{"redis://h", 900 * time.Millisecond, Good, "900ms usually"},
	} {
		v := &visit{Options: Options{Schemes: every, TTL: time.Minute}, place: placeOf(c.url, every)}
		v.roundTrip([]time.Duration{c.trip, c.trip})
		if f := resultOf(t, v.found, "round-trip"); f.State != c.want || !strings.Contains(f.Seen+f.Why, c.seen) {
			t.Errorf("%v to %s: %+v", c.trip, c.url, f)
		}
	}
}

func TestClocks(t *testing.T) {
	for name, c := range map[string]struct {
		store skewed
		check string
		want  State
		seen  string
		told  string // what to do
	}{
		"right":         {skewed{trip: time.Millisecond}, "clock", Good, "0s ahead", ""},
		"steady":        {skewed{trip: time.Millisecond}, "drift", Good, "runs 0.000 %", ""},
		"ahead":         {skewed{trip: time.Millisecond, off: 5 * time.Second}, "clock", Problem, "5s ahead of this machine's, give or take 500µs", ""},
		"behind":        {skewed{trip: time.Millisecond, off: -5 * time.Second}, "clock", Problem, "5s behind", ""},
		"far away":      {skewed{trip: 3 * time.Second}, "clock", Unknown, "give or take 1.5s", ""},
		"fast":          {skewed{trip: time.Millisecond, rate: 0.08}, "drift", Problem, "runs 8.0", "find out what moves the clock"},
		"slow":          {skewed{trip: time.Millisecond, rate: -0.08}, "drift", Problem, "slow", "find out"},
		"slewed":        {skewed{trip: time.Millisecond, rate: 0.005}, "drift", Problem, "runs 0.50", "being corrected"},
		"as ntpd":       {skewed{trip: time.Millisecond, rate: 0.0005}, "drift", Good, "runs 0.050", ""},
		"not told":      {skewed{trip: 100 * time.Millisecond, rate: 0.0005}, "drift", Unknown, "give or take", ""},
		"was set back":  {skewed{trip: time.Millisecond, stuck: 1 << 51, count: new(uint64)}, "clock", Problem, "are ahead of the server's clock", ""},
		"seconds":       {skewed{trip: 30 * time.Millisecond, grain: true, count: new(uint64)}, "clock", Good, "whole seconds", ""},
		"late seconds":  {skewed{trip: 30 * time.Millisecond, off: 5 * time.Second, grain: true, count: new(uint64)}, "clock", Problem, "ahead", ""},
		"near":          {skewed{trip: time.Millisecond}, "round-trip", Good, "1ms usually, 1ms at worst", ""},
		"too far":       {skewed{trip: time.Second}, "round-trip", Problem, "with a TTL of 30s", ""},
		"held up, then": {skewed{trip: 400 * time.Millisecond}, "round-trip", Good, "400ms", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				memory, err := open.Store(t.Context(), "memory:")
				if err != nil {
					t.Fatal(err)
				}
				c.store.Store, c.store.begin = memory, time.Now()
				found, err := Examine(t.Context(), "redis://localhost", Options{
					Schemes: every, Open: func(context.Context, string, ...open.Option) (padlock.Store, error) { return shared{c.store}, nil },
					Name: "doctor", TTL: 30 * time.Second, Measure: 2 * time.Second,
				})
				if err != nil {
					t.Fatal(err)
				}
				if f := resultOf(t, found, c.check); f.State != c.want || !strings.Contains(f.Seen, c.seen) {
					t.Errorf("%+v; want %s, %q", f, c.want, c.seen)
				}
				if f := c.told; f != "" && !strings.Contains(resultOf(t, found, c.check).Do, f) {
					t.Errorf("what to do is %q, want %q", resultOf(t, found, c.check).Do, f)
				}
				if err := memory.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// shared is a store that somebody else closes.
type shared struct{ driver.Store }

func (shared) Close() error { return nil }

// A setting that could not be read is reported as unknown.
func TestUnknownIsAValue(t *testing.T) {
	v := &visit{Options: Options{Schemes: every}, place: placeOf("redis://localhost", every)}
	n := node{}
	for _, name := range []string{"server", "role", "connected-replicas", "maxmemory", "maxmemory-policy", "persistence", "uptime", "restart-guard", "known-before"} {
		n[name] = padlock.Finding{Name: name, Value: driver.Unknown}
	}
	v.node(n, padlock.Guarantees{MaxTTL: time.Minute})
	for _, check := range []string{"version", "eviction", "persistence", "uptime", "failover", "restart-guard"} {
		if f := resultOf(t, v.found, check); f.State != Unknown {
			t.Errorf("%+v", f)
		}
	}
}

// With Sentinel or Cluster a replica may take over, so failover is a problem even if no replica is
// connected.
func TestFailover(t *testing.T) {
	for _, c := range []struct {
		url, mode, replicas string
		want                State
		seen, do            string
	}{
		{"redis://a", "standalone", "0", Good, "none can take over", ""},
		{"redis://a", "standalone", "2", Problem, "2 replicas", "never replaced"},
		{"redis+sentinel://a/locks", "sentinel", "0", Problem, "sentinel: replicas take over; connected now: 0", "quorum:"},
		{"redis+cluster://a", "cluster", "1", Problem, "cluster: replicas take over; connected now: 1", "check fences"},
	} {
		v := &visit{Options: Options{Schemes: every}, place: placeOf(c.url, every), mode: c.mode}
		v.failover(node{"connected-replicas": {Value: c.replicas}})
		f := resultOf(t, v.found, "failover")
		if f.State != c.want || !strings.Contains(f.Seen, c.seen) || !strings.Contains(f.Do, c.do) {
			t.Errorf("%s: %+v", c.url, f)
		}
	}
}

// A wrong URL is an error and not a finding.
// Advice of a store is a problem, and what it cannot read is unknown, even if no check knows the
// finding.
func TestAdviceOfStores(t *testing.T) {
	v := &visit{}
	v.node(node{
		"standbys":           {Name: "standbys", Value: "1, asynchronous", Advice: "set synchronous_standby_names"},
		"pooler":             {Name: "pooler", Value: "in session mode", Advice: "make sure of it"},
		"alarms":             {Name: "alarms", Value: "NOSPACE", Advice: "compact it"},
		"leader":             {Name: "leader", Value: "none", Advice: "start more members"},
		"locks":              {Name: "locks", Value: "10 of about 6400"},
		"brand-new":          {Name: "brand-new", Value: "7", Advice: "make it 8"},
		"harmless":           {Name: "harmless", Value: "7"},
		"unread":             {Name: "unread", Value: driver.Unknown},
		"versioning":         {Name: "versioning", Value: "off"},
		"lifecycle":          {Name: "lifecycle", Value: driver.Unknown},
		"conditional-writes": {Name: "conditional-writes", Value: "refused"},
		"role":               {Name: "role", Value: "standby", Advice: "connect to the primary"},
	}, padlock.Guarantees{})
	for check, want := range map[string]State{"standbys": Problem, "pooler": Problem, "alarms": Problem, "leader": Problem, "locks": Good, "brand-new": Problem, "role": Problem, "unread": Unknown, "versioning": Good, "lifecycle": Unknown, "conditional-writes": Good} {
		if f := resultOf(t, v.found, check); f.State != want {
			t.Errorf("%s is %v, want %v", check, f, want)
		}
	}
	if n := len(v.found); n != 11 {
		t.Errorf("%d findings, want 11: %v", n, v.found)
	}
}

func TestWrongURL(t *testing.T) {
	_, err := Examine(t.Context(), "redis://:canary@localhost?x=y", Options{Open: all.Store, Schemes: every})
	if !errors.Is(err, padlock.ErrInvalid) || strings.Contains(err.Error(), "canary") {
		t.Errorf("%v", err)
	}
}

// A finding has no prefix of the library, and no word of Go's.
func TestPlainErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{context.DeadlineExceeded, "it did not answer in time"},
		{&padlock.Error{Op: padlock.OpAcquire, Name: "x", Err: fmt.Errorf("%w: it is read-only", padlock.ErrUnavailable)}, "it is read-only"},
	} {
		if got := plain(c.err); got != c.want {
			t.Errorf("%v is shown as %q, want %q", c.err, got, c.want)
		}
	}
}

// A noList is a store whose user may do everything except to list the names.
type noList struct {
	driver.Store
	driver.Waiter
	driver.Admin
}

func (noList) List(context.Context, string) ([]driver.State, error) {
	return nil, fmt.Errorf("%w: the service answers 403 Forbidden", driver.ErrUnavailable)
}

func TestRightToList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := open.Store(t.Context(), "memory:", every)
		if err != nil {
			t.Fatal(err)
		}
		store := noList{memory, memory.(driver.Waiter), memory.(driver.Admin)}
		v := &visit{Options: Options{Name: "doctor", TTL: 30 * time.Second, Measure: time.Millisecond, Schemes: every}, raw: "s3://bucket"}
		v.Open = func(context.Context, string, ...open.Option) (padlock.Store, error) { return store, nil }
		l := padlock.New(store)
		v.examineWork(t.Context(), l)
		if f := resultOf(t, v.found, "rights"); f.State != Good {
			t.Errorf("the locks work, and the finding is %+v", f)
		}
		if f := resultOf(t, v.found, "ls"); f.State != Problem || !strings.Contains(f.Do, "docs/stores") {
			t.Errorf("the names cannot be listed, and the finding is %+v", f)
		}
	})
}
