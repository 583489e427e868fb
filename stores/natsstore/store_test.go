package natsstore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/storekit/overhttp/overhttptest"
	"github.com/padlock-go/padlock/stores/natsstore"
)

func schemeUpgrade(t *testing.T, rawURL string) (from, to int, err error) {
	return natsstore.Scheme().Upgrade(t.Context(), parse(t, rawURL))
}

func bucketOf(name string, size int64) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{Bucket: name, MaxBytes: size}
}

// NATS's own tools can show the key of every name, and Names finds every name again.
func TestKeys(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	store := open(t, rawURL)
	names := []string{"job", "a/b", "a.b", "..", "*", ">", "a b", "50%", "x=y", "Ä \x00\xff", strings.Repeat("é", 500)}
	for _, name := range names {
		take(t, store, request(name))
	}
	_, js := connect(t, srv.URL())
	kv, err := js.KeyValue(t.Context(), "locks")
	if err != nil {
		t.Fatal(err)
	}
	found, err := kv.Keys(t.Context())
	if err != nil || len(found) != len(names) {
		t.Errorf("NATS's client finds %d keys, %v", len(found), err)
	}
	for _, key := range append(found, "shop/a=2Eb") {
		if _, err := kv.Get(t.Context(), key); err != nil {
			t.Errorf("NATS's client cannot read %q: %v", key, err)
		}
	}
	other := open(t, strings.Replace(rawURL, "/shop", "", 1))
	take(t, other, request("elsewhere"))
	states, err := store.(driver.Admin).List(t.Context(), "")
	if err != nil || len(states) != len(names) {
		t.Errorf("List: %d names, %v", len(states), err)
	}
	for _, s := range states {
		if !slices.Contains(names, s.Name) {
			t.Errorf("List has %q", s.Name)
		}
	}
	if some, err := store.(driver.Admin).List(t.Context(), "a"); err != nil || len(some) != 3 {
		t.Errorf(`List("a"): %d names, %v`, len(some), err)
	}
}

// When a holder dies, a process that has watched gets the name after the lease, and one that comes
// anew after it has watched for as long. With the clock of the server it is free to all at once.
func TestDeadHolder(t *testing.T) {
	t.Parallel()
	_, rawURL := start(t, server.NATSOptions{})
	for _, query := range []string{"", "?clock=server&skew=0s"} {
		holder := open(t, rawURL+query)
		r := request("job" + query)
		r.TTL = time.Second
		take(t, holder, r)
		<-time.After(1200 * time.Millisecond)
		var anew driver.Store
		next := request(r.Name)
		err := answered(t, func() error {
			anew = open(t, rawURL+query) // one that has not watched
			_, err := anew.Acquire(t.Context(), next)
			return err
		})
		if free := err == nil; free != (query != "") || err != nil && !errors.Is(err, driver.ErrHeld) {
			t.Errorf("%q: a new process after the lease: %v", query, err)
		}
		if query == "" {
			<-time.After(1100 * time.Millisecond)
			take(t, anew, request(r.Name))
		}
	}
	store := open(t, rawURL+"?clock=server")
	if g := store.Guarantees(); g.MinTTL != 5*time.Second || g.SafeClockJump == driver.PromiseYes {
		t.Errorf("with the clock of the server: %+v", g)
	}
}

// Programs with different clocks do not read each other's records.
func TestTwoClocks(t *testing.T) {
	t.Parallel()
	_, rawURL := start(t, server.NATSOptions{})
	take(t, open(t, rawURL), request("job"))
	other := open(t, rawURL+"?clock=server")
	refuses(t, "clock=observed", func() error { _, err := other.Acquire(t.Context(), request("job")); return err })
}

// The store refuses a reader whose label would make the record longer than the servers take.
func TestManyReaders(t *testing.T) {
	t.Parallel()
	_, rawURL := start(t, server.NATSOptions{})
	overhttptest.CheckReaders(t, open(t, rawURL), 25)
}

// A server that takes shorter messages than the longest record is refused.
func TestShortMessages(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{Config: "max_payload: 128KB\n"})
	makeBucket(t, srv.URL()+"/locks")
	refusesToOpen(t, "max_payload", srv.URL()+"/locks")
}

// padlock schema makes the bucket, once, with the replicas of the URL.
func TestSchema(t *testing.T) {
	t.Parallel()
	srv := server.NATS(t, server.NATSOptions{})
	rawURL := srv.URL() + "/locks"
	if said, err := natsstore.Scheme().Schema(parse(t, rawURL+"?replicas=3")); err != nil || !slices.Equal(said, []string{"nats kv add locks --history=1 --storage=file --replicas=3"}) {
		t.Errorf("Schema: %q, %v", said, err)
	}
	refuses(t, "replicas", func() error { _, _, err := schemeUpgrade(t, rawURL+"?replicas=3"); return err })
	makeBucket(t, rawURL)
	var from, to int
	if err := answered(t, func() (err error) { from, to, err = schemeUpgrade(t, rawURL); return err }); from != 1 || to != 1 || err != nil {
		t.Errorf("the second Upgrade: from %d to %d, %v", from, to, err)
	}
	_, js := connect(t, srv.URL())
	stream, err := js.Stream(t.Context(), "KV_locks")
	if err != nil {
		t.Fatal(err)
	}
	if c := stream.CachedInfo().Config; c.MaxMsgsPerSubject != 1 || c.Storage != jetstream.FileStorage || c.MaxAge != 0 || c.Replicas != 1 {
		t.Errorf("the bucket: %+v", c)
	}
}

// doctor warns of a bucket that forgets, or that refuses what it should keep.
func TestStatus(t *testing.T) {
	t.Parallel()
	srv, rawURL := start(t, server.NATSOptions{})
	_, js := connect(t, srv.URL())
	for n, b := range []struct {
		change func(*jetstream.StreamConfig)
		advice []string
	}{
		{func(*jetstream.StreamConfig) {}, nil},
		{func(c *jetstream.StreamConfig) { c.MaxAge, c.Storage = time.Hour, jetstream.MemoryStorage }, []string{"--storage=file", "--ttl"}},
		{func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode }, []string{"async"}},
		{func(c *jetstream.StreamConfig) { c.Discard, c.MaxBytes = jetstream.DiscardOld, 1<<20 }, []string{"discard=new"}},
		{func(c *jetstream.StreamConfig) { c.Discard, c.MaxMsgs = jetstream.DiscardOld, 10 }, []string{"discard=new"}},
		{func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardOld }, nil},
		{func(c *jetstream.StreamConfig) { c.DiscardNewPerSubject = true }, []string{"discard_new_per_subject"}},
		{func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 << 10 }, []string{"262144 bytes"}},
		{func(c *jetstream.StreamConfig) { c.MaxMsgSize = 1 << 20 }, nil},
		{func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 }, []string{"refuses renewals"}},
	} {
		name := fmt.Sprint("bucket-", n)
		set := jetstream.StreamConfig{
			Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"},
			MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, AllowRollup: true, DenyDelete: true, AllowDirect: true,
		}
		b.change(&set)
		if _, err := js.CreateStream(t.Context(), set); err != nil {
			t.Fatal(name, err)
		}
		findings := statusOf(t, open(t, srv.URL()+"/"+name))
		var advice []string
		for _, f := range findings {
			if f.Advice != "" {
				advice = append(advice, f.Advice)
			}
		}
		fits := len(advice) == len(b.advice)
		for i := range advice {
			fits = fits && strings.Contains(advice[i], b.advice[i])
		}
		if !fits {
			t.Errorf("%s: %+v; want the advice %q", name, findings, b.advice)
		}
	}
	if findings := statusOf(t, open(t, rawURL)); len(findings) != 4 {
		t.Errorf("the bucket of padlock schema: %+v", findings)
	}
}

func statusOf(t *testing.T, s driver.Store) (findings []driver.Finding) {
	t.Helper()
	if err := answered(t, func() (err error) { findings, err = s.(driver.Reporter).Status(t.Context()); return err }); err != nil {
		t.Fatal(err)
	}
	return findings
}

const canary = "canary-s3cret"

// Each login that the page names works, and no error has a secret.
func TestLogin(t *testing.T) {
	t.Parallel()
	user := server.NATS(t, server.NATSOptions{Config: "authorization { user: app, password: \"" + canary + "\" }\n"})
	token := server.NATS(t, server.NATSOptions{Config: "authorization { token: \"" + canary + "\" }\n"})
	dir := t.TempDir()
	file, wrong := filepath.Join(dir, "password"), filepath.Join(dir, "wrong")
	for name, text := range map[string]string{file: canary, wrong: "wrong-" + canary} {
		if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for n, rawURL := range []string{
		"nats://app:" + canary + "@" + user.Addr() + "/locks",
		"nats://app@" + user.Addr() + "/locks?password-file=" + file,
		"nats://" + canary + "@" + token.Addr() + "/locks",
	} {
		if n != 1 {
			makeBucket(t, rawURL)
		}
		take(t, open(t, rawURL), request(rawURL[len(rawURL)-5:]))
	}
	for rawURL, want := range map[string]string{
		"nats://app:wrong-" + canary + "@" + user.Addr() + "/locks":   "Authorization Violation",
		"nats://app@" + user.Addr() + "/locks?password-file=" + wrong: "Authorization Violation",
		"nats://app@" + user.Addr() + "/locks?password-file=/nowhere": "no such file",
		"nats://wrong-" + canary + "@" + token.Addr() + "/locks":      "Authorization Violation",
		"nats://" + user.Addr() + "/locks":                            "Authorization Violation",
		"nats://" + user.Addr() + "/locks?creds=/nowhere":             "no such file",
		"nats://" + canary + ":" + canary + "@127.0.0.1:1/locks":      "no servers available",
		"nats://" + user.Addr() + "/locks?tls=yes":                    "secure connection not available",
	} {
		refuses(t, want, func() error {
			s, err := openURL(t.Context(), t, rawURL)
			if err == nil {
				s.Close()
				err = errors.New("it was opened")
			}
			if strings.Contains(err.Error(), canary) {
				t.Fatal("the error has the secret")
			}
			return err
		})
	}
}

// A password that changes is read again for the next connection.
func TestPasswordChanges(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	srv := server.NATS(t, server.NATSOptions{Config: "authorization { user: app, password: one }\n"})
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "one")
	rawURL := "nats://app@" + srv.Addr() + "/locks?password-file=" + file
	makeBucket(t, rawURL)
	store := open(t, rawURL)
	r := request("job")
	r.TTL = time.Hour // longer than any restart
	take(t, store, r)
	srv.Kill()
	conf := srv.Place().Path("nats.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	write(conf, strings.Replace(string(text), "password: one", "password: two", 1))
	write(file, "two")
	srv.Restart(true)
	server.Eventually(t, func() error { _, err := store.Extend(t.Context(), r.Name, r.Token, r.TTL); return err })
}

// The connection is encrypted if the server or the URL wants that, and the certificate is checked.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert := server.NewTLS(t)
	srv := server.NATS(t, server.NATSOptions{TLS: cert})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, cert.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	rawURL := srv.URL() + "/locks?tls=yes&ca=" + ca
	makeBucket(t, rawURL)
	take(t, open(t, rawURL), request("job"))
	for _, wrong := range []string{srv.URL() + "/locks", srv.URL() + "/locks?tls=yes", rawURL + "&server-name=other.example"} {
		refusesToOpen(t, "certificate", wrong)
	}
}

// The rights of the page suffice. Without one of them, the error names what the user may not do.
func TestRights(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/stores/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rights, _ := strings.Cut(string(page), "```\npublish:")
	rights, _, found := strings.Cut(rights, "```")
	if !found {
		t.Fatal("the page has no rights")
	}
	rights = "publish:" + rights
	config := "authorization { users: [ { user: root, password: root }\n"
	missing := regexp.MustCompile(`"[$][^"]*"`).FindAllString(rights, -1)
	for n, right := range append(missing, "none") {
		config += fmt.Sprintf("{ user: \"%[1]d\", password: \"%[1]d\", permissions: { %[2]s } }\n", n, strings.Replace(rights, right, `"unused"`, 1))
	}
	srv := server.NATS(t, server.NATSOptions{Config: config + "] }\n"})
	rawURL := func(user any) string { return fmt.Sprintf("nats://%[1]v:%[1]v@%[2]s/locks", user, srv.Addr()) }
	makeBucket(t, rawURL("root"))
	store := open(t, rawURL(len(missing)))
	useAll(t, store, rawURL("root"))
	var all sync.WaitGroup
	defer all.Wait()
	for n, right := range missing {
		subject, _, _ := strings.Cut(strings.Trim(right, `"`), "*")
		if strings.HasPrefix(subject, "$JS.FC") {
			continue // needed only for many messages at once
		}
		all.Go(func() {
			want := `Permissions Violation for Publish to "` + strings.TrimSuffix(subject, ">")
			for try := 1; ; try++ { // if the server is slow, the error is another one
				err := useSome(t, rawURL(n))
				if err != nil && strings.Contains(err.Error(), want) {
					return
				}
				if err == nil || try == 5 {
					t.Errorf("without %s: %v", right, err)
					return
				}
			}
		})
	}
}

// useAll uses each right of a user.
func useAll(t *testing.T, store driver.Store, root string) {
	r := request("job")
	take(t, store, r)
	woken := wait(t, store, "job")
	_, js := connect(t, strings.TrimSuffix(root, "/locks"))
	server.Eventually(t, func() error {
		stream, err := js.Stream(t.Context(), "KV_locks")
		if err == nil && stream.CachedInfo().State.Consumers == 0 {
			err = errors.New("nobody waits")
		}
		return err
	})
	if states, err := store.(driver.Admin).List(t.Context(), ""); err != nil || len(states) != 1 {
		t.Errorf("List: %v, %v", states, err)
	}
	if _, err := store.Release(t.Context(), r.Name, r.Token, 0); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; err != nil {
		t.Error(err)
	}
	last := request("job")
	last.TTL = time.Hour // useSome waits for it
	take(t, store, last)
}

// useSome opens a store, takes a lock and waits for one that is held, until there is an error.
func useSome(t *testing.T, rawURL string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := openURL(ctx, t, rawURL)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Acquire(ctx, request(rand.Text())); err != nil {
		return err
	}
	_, err = s.(driver.Waiter).Wait(ctx, request("job"), true)
	return err
}

// Wrong URLs and settings are errors before anything is sent.
func TestWrong(t *testing.T) {
	for rawURL, want := range map[string]string{
		"nats://h":                                "the bucket",
		"nats://h/a.b":                            "the bucket",
		"nats://h/locks/a.b":                      "the prefix",
		"nats:///locks":                           "has the form",
		"nats://:secret@h/locks":                  "a password without a user",
		"nats://h/locks?clock=local":              "observed or server",
		"nats://h/locks?skew=1s":                  "clock=server",
		"nats://h/locks?clock=server&skew=1h":     "skew",
		"nats://h/locks?replicas=9":               "from 1 to 5",
		"nats://h/locks?ca=x":                     "tls=yes",
		"nats://u:secret@h/locks?creds=x":         "a login already",
		"nats://h/locks?tls=yes&ca=/nowhere":      "ca:",
		"nats://h/locks?endpoint=http://x":        "no parameter",
		"nats://h/" + strings.Repeat("b", 201):    "the bucket",
		"nats://h/b/" + strings.Repeat("p", 2000): "the prefix",
	} {
		_, err := openURL(t.Context(), t, rawURL)
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want %q", rawURL, err, want)
		}
	}
	if _, err := natsstore.Open(t.Context(), natsstore.Config{Bucket: "locks"}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("no server: %v", err)
	}
	if got := natsstore.Scheme().Instead("tls://host"); !strings.Contains(got, "tls=yes") {
		t.Errorf("for a URL of NATS's tools: %q", got)
	}
}

// Two buckets and two prefixes on the same servers fail together: they are no two members of a
// quorum.
func TestSamePlace(t *testing.T) {
	one := open(t, "nats://One,two/locks/a?lazy=yes")
	for want, other := range map[bool]driver.Store{
		true:  open(t, "nats://app:pw@two,one:4222/other/b?lazy=yes"),
		false: open(t, "nats://one/locks/a?lazy=yes"),
	} {
		if got := driver.SamePlace(one, other); got != want {
			t.Errorf("in the same place: %v, want %v", got, want)
		}
	}
}
