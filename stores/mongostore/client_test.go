package mongostore_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// docs/stores/mongodb.md has this function. pages:TestFunctions compares them.

func fromMongo(o *options.ClientOptions, database string) mongostore.Config {
	uri := regexp.MustCompile("//[^/@]*@").ReplaceAllString(o.GetURI(), "//") // without the login
	c := mongostore.Config{URI: uri, Database: database, Collection: "padlock", TLS: o.TLSConfig}
	if o.Auth != nil {
		c.Credentials = mongostore.Login(o.Auth.Username, o.Auth.Password)
	}
	if o.Dialer != nil {
		c.Dial = o.Dialer.DialContext
	}
	return c
}

// TestSettingsOfAClient opens a store with the settings of a client.
func TestSettingsOfAClient(t *testing.T) {
	t.Parallel()
	var dialed atomic.Int64
	database, user := login(t, func(uri string) mongostore.Config {
		o := options.Client().ApplyURI(uri + "?authSource=staff").
			SetAuth(options.Credential{AuthSource: "staff", Username: "app", Password: "secret"}).
			SetDialer(counting{&dialed})
		return fromMongo(o, "shop")
	})
	if database != "staff" || user != "app" {
		t.Errorf("the store logs in at %q as %q", database, user)
	}
	if dialed.Load() == 0 {
		t.Error("the dialer was not called")
	}
}

// TestLoginDatabase: a user of Config is looked up where a user in the URI is.
func TestLoginDatabase(t *testing.T) {
	t.Parallel()
	for end, want := range map[string]string{"": "admin", "people": "people", "people?authSource=staff": "staff", "?authSource=staff": "staff"} {
		for _, old := range []string{"", "somebody@"} {
			database, user := login(t, func(uri string) mongostore.Config {
				return mongostore.Config{
					URI: strings.Replace(uri, "//", "//"+old, 1) + end, Credentials: mongostore.Login("a:/?#[]@$+ %b", "se@cr/et"),
					Database: "shop", Collection: "padlock",
				}
			})
			if database != want || user != "a:/?#[]@$+ %b" {
				t.Errorf("with %s…/%s the store logs in at %q as %q, want %q", old, end, database, user, want)
			}
		}
	}
}

// TestPasswordInTheURI: a URI with a password is refused, since a Config is printed as it is. The error
// has no part of the password, even if the password has a slash.
func TestPasswordInTheURI(t *testing.T) {
	t.Parallel()
	for _, login := range []string{"old:12", "old:12/34", "old:"} {
		s, err := mongostore.Open(t.Context(), mongostore.Config{
			URI: "mongodb://" + login + "@127.0.0.1/", Database: "shop", Collection: "padlock",
		})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "Credentials") || strings.Contains(err.Error(), "12") {
			t.Errorf("%s: %v", login, err)
		}
	}
}

// login opens a store on a script, which refuses the login. It returns the database and the user of
// the login.
func login(t *testing.T, config func(uri string) mongostore.Config) (database, user string) {
	t.Helper()
	sc := &script{reply: always(refusal(18))}
	c := config(sc.listen(t).URI)
	err := sc.reach(func() error {
		s, err := mongostore.Open(t.Context(), c)
		if err == nil {
			s.Close()
			t.Fatal("the store opened though the login was refused")
		}
		return err
	})
	if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "se@cr") {
		t.Errorf("the error has the password: %v", err)
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if len(sc.sent) == 0 {
		t.Fatalf("the store did not log in: %v", err)
	}
	first := sc.sent[0]
	database, _ = first.Lookup("$db").StringValueOK()
	_, payload, _ := first.Lookup("payload").BinaryOK()
	user, _, _ = strings.Cut(strings.TrimPrefix(string(payload), "n,,n="), ",r=")
	return database, user
}

// counting counts the connections that it makes.
type counting struct{ n *atomic.Int64 }

func (c counting) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c.n.Add(1)
	return new(net.Dialer).DialContext(ctx, network, addr)
}
