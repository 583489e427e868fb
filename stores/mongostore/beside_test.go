package mongostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/safety"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/mongostore"
)

func take(t testing.TB, s *mongostore.Store, r driver.Request) driver.Grant {
	t.Helper()
	g, err := s.Acquire(t.Context(), r)
	if err != nil {
		t.Fatalf("Acquire %q: %v", r.Name, err)
	}
	return g
}

func refused(t testing.TB, s *mongostore.Store, r driver.Request) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), r)
	safety.Refused(t, err, r.Name)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("Acquire %q: %v; want a HeldError", r.Name, err)
	}
	return held
}

func release(t testing.TB, s *mongostore.Store, r driver.Request, keep time.Duration) {
	t.Helper()
	if got, err := s.Release(t.Context(), r.Name, r.Token.Text(), keep); got != driver.OutcomeReleased || err != nil {
		t.Fatalf("Release %q: %v, %v", r.Name, got, err)
	}
}

// The two layouts on one collection exclude each other, and the fence survives the deletion of the
// document.
func TestBesideSymfony(t *testing.T) {
	u := serverURL(t, "MONGODB_URL")
	u.Path = "/padlock_test"
	u = with(u, "collection", "beside-"+rand.Text())
	own, err := mongostore.FromURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	php := symfony(t, u.String())
	one, two := request("job", "one"), request("job", "two")

	first := take(t, own, one)
	if !refused(t, php, two).Foreign() {
		t.Error("PHP's side names a holder")
	}
	if _, err := php.Extend(t.Context(), "job", "one", 2*time.Hour); err != nil {
		t.Errorf("PHP extends by the token of padlock's hold: %v", err)
	}
	if held := refused(t, own, two); time.Until(held.Until) < time.Hour {
		t.Errorf("the hold that PHP has extended to two hours ends at %v", held.Until)
	}
	release(t, own, one, 0)
	take(t, php, two)
	if !refused(t, own, one).Foreign() {
		t.Error("PHP's hold is not foreign")
	}
	release(t, php, two, 0) // deletes the document
	second := take(t, own, one)
	safety.Rises(t, second.Fence, first.Fence)
	release(t, own, one, time.Minute)
	refused(t, php, two) // a cool-down
	if fence, err := own.Break(t.Context(), "job", second.Fence); err != nil || !safety.Rises(t, fence, second.Fence) {
		t.Fatalf("Break: %d, %v", fence, err)
	}
	reader := one
	reader.Shared = true
	take(t, own, reader)
	refused(t, php, two) // a reader
	release(t, own, reader, 0)

	take(t, php, two)
	adopts := request("job", "three")
	adopts.Replaces = driver.TokenOf("two")
	safety.Rises(t, take(t, own, adopts).Fence, second.Fence)
	if _, err := php.Extend(t.Context(), "job", "two", time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("PHP's hold after it was adopted: %v", err)
	}
}

// startPHP starts PHP with Debian's Symfony. The extension mongodb is Debian's php-mongodb. The
// library mongodb/mongodb is in no Debian package: PHP_MONGODB names its directory.
func startPHP(t *testing.T, dsn string) *server.PHP {
	t.Helper()
	library := os.Getenv("PHP_MONGODB")
	if library == "" {
		t.Skip("PHP_MONGODB is not set: give the directory of the PHP library mongodb/mongodb")
	}
	needs := server.PHPNeeds{Extension: "mongodb", Symfony: []string{"Lock"}}
	return server.StartPHP(t, needs, "testdata/lock.php", dsn, library)
}

// PHP and padlock exclude each other in both directions, with a DSN as PHP has it. FERRETDB is the
// URL of a FerretDB, or of a MongoDB server.
func TestPHP(t *testing.T) {
	u := serverURL(t, "FERRETDB")
	u.Path = "/padlock_test"
	dsn := with(u, "collection", "php-"+rand.Text()).String()
	p, s := startPHP(t, dsn), symfony(t, dsn)
	for _, name := range []string{"job", "report/42:daily run", "$é", strings.Repeat("x", 900)} {
		exclude(t, p, s, name)
	}
}

func exclude(t *testing.T, p *server.PHP, s *mongostore.Store, name string) {
	t.Helper()
	r := request(name, "GO token of "+name[:1])
	take(t, s, r)
	p.Ask("no", "acquire "+name)
	release(t, s, r, 0)

	p.Ask("yes", "acquire "+name)
	if !refused(t, s, request(name, "another")).Foreign() {
		t.Error("PHP's hold is not foreign")
	}
	if _, err := s.Extend(t.Context(), name, "another", time.Minute); !errors.Is(err, driver.ErrLost) {
		t.Errorf("Extend of a name that PHP holds: %v", err)
	}
	if got, err := s.Release(t.Context(), name, "another", 0); got != driver.OutcomeGone || err != nil {
		t.Errorf("Release of a name that PHP holds: %v, %v", got, err)
	}
	p.Ask("yes", "refresh "+name)
	p.Ask("yes", "held "+name)
	if state, err := s.Inspect(t.Context(), name); err != nil || len(state.Holds) != 1 {
		t.Errorf("Inspect: %+v, %v; PHP holds the name", state, err)
	}
	p.Ask("yes", "release "+name)

	take(t, s, r)
	if _, err := s.Extend(t.Context(), name, r.Token.Text(), 2*time.Minute); err != nil {
		t.Error(err)
	}
	p.Ask("no", "acquire "+name)
	release(t, s, r, 0)
	p.Ask("yes", "acquire "+name)
	p.Ask("yes", "release "+name)
}

// PHP respects the holds of the default layout, and the default layout respects those of PHP.
func TestPHPBesideTheDefaultLayout(t *testing.T) {
	u := serverURL(t, "MONGODB_URL")
	u.Path = "/padlock_test"
	u = with(u, "collection", "php-"+rand.Text())
	p := startPHP(t, u.String())
	s, err := mongostore.FromURL(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r := request("job", "one")
	first := take(t, s, r)
	p.Ask("no", "acquire job")
	release(t, s, r, 0)
	p.Ask("yes", "acquire job")
	if !refused(t, s, r).Foreign() {
		t.Error("PHP's hold is not foreign")
	}
	p.Ask("yes", "refresh job")
	refused(t, s, request("job", "two"))
	p.Ask("yes", "release job")
	safety.Rises(t, take(t, s, request("job", "three")).Fence, first.Fence)
	reader := request("reads", "one")
	reader.Shared = true
	take(t, s, reader)
	p.Ask("no", "acquire reads")
	release(t, s, reader, time.Minute)
	p.Ask("no", "acquire reads")
}

// foreign returns a function that takes a name in Symfony's layout. The suite uses it as another
// program.
func (b *bench) foreign(t *testing.T) func(name string) (func() error, error) {
	s, err := mongostore.Open(t.Context(), b.config, mongostore.SymfonyLayout())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return func(name string) (func() error, error) {
		r := request(name, rand.Text())
		_, err := s.Acquire(context.Background(), r)
		return func() error { _, err := s.Release(context.Background(), name, r.Token.Text(), 0); return err }, err
	}
}
