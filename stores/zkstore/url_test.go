package zkstore_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestURLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"zookeeper://":                                "has the form",
		"zookeeper://h#x":                             "has the form",
		"zookeeper://h,/locks":                        "not HOST or HOST:PORT",
		"zookeeper://h/zookeeper/x":                   "not below /zookeeper",
		"zookeeper://h/a//b":                          "the root in the URL",
		"zookeeper://h/a?colour=red":                  `no parameter "colour"`,
		"zookeeper://h/a?lazy=1":                      "lazy: it is yes or no",
		"zookeeper://h/a?lazy=yes&lazy=no":            "more than once",
		"zookeeper://h/a?session-timeout=soon":        "a duration such as 10s",
		"zookeeper://h/a?session-timeout=1ms":         "it is 200ms to 10m",
		"zookeeper://h/a?layout=curator":              "queue or symfony",
		"zookeeper://h/a?layout=symfony&fences=no":    "Symfony's layout has none",
		"zookeeper://:pw@h/a":                         "a password without a user",
		"zookeeper://u:pw@h/a?password-file=/nowhere": "in the URL and in a file",
		"zookeeper://u%3Av:pw@h/a":                    "has no colon",
		"redis://h/a":                                 "begins with zookeeper:",
	} {
		_, err := zkstore.FromURL(t.Context(), parse(t, text), zkstore.Lazy())
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want it to say %q", text, err, want)
		}
	}
}

// A URL names all servers, the user, the root and the settings. A password file is read when a
// session begins.
func urlOpens(t *testing.T, srv *server.Server) {
	file := filepath.Join(t.TempDir(), "password")
	u := parse(t, "zk://app@127.0.0.1:1,"+srv.Addr()+"/shop/locks?session-timeout=90s&password-file="+url.QueryEscape(file))
	early, err := zkstore.FromURL(t.Context(), u, zkstore.Lazy())
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	waitUntil(t, "Acquire without the file names it", func() bool { // the store may not reach the server in time
		_, err := early.Acquire(t.Context(), request("early"))
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
			t.Fatalf("Acquire without the file: %v", err)
		}
		return strings.Contains(err.Error(), "password-file")
	})
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	take(t, early, request("early"))
	var s *zkstore.Store
	whileUncertain(t, "FromURL", func() (err error) { s, err = zkstore.FromURL(t.Context(), u); return err })
	defer s.Close()
	r := request("urlOpens")
	take(t, s, r)
	conn := rawConn(t, srv.Addr())
	if err := conn.AddAuth("digest", []byte("app:secret")); err != nil {
		t.Fatal(err)
	}
	acl, _, err := conn.GetACL("/shop/locks/urlOpens")
	if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" || !strings.HasPrefix(acl[0].ID, "app:") {
		t.Errorf("the ACL is %v, %v", acl, err)
	}
	if f := finding(t, s, "session-timeout"); f.Value != "1m0s" || !strings.Contains(f.Advice, "1m30s was asked for") {
		t.Errorf("%+v", f)
	}
	if f := finding(t, s, "127.0.0.1:1 member"); f.Value != driver.Unknown || f.Advice == "" {
		t.Errorf("%+v", f)
	}
	if f := findingOf(t, s, srv.Addr()+" version", "3."); f.Advice != "" {
		t.Errorf("%+v", f)
	}
	if f := findingOf(t, s, srv.Addr()+" member", "standalone"); f.Advice == "" {
		t.Errorf("%+v", f)
	}
}

// Servers that demand a longer session than was asked for would break the promise of LossDelay.
func TestSessionTimeoutsOfTheServers(t *testing.T) {
	t.Parallel()
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{Java: []string{"-Dzookeeper.skipACL=yes"}, Conf: []string{"minSessionTimeout=5000"}})
	c := zkstore.Config{Servers: []string{srv.Addr()}, Credentials: zkstore.Login("app", "secret")}
	_, err := openAt(t.Context(), c, zkstore.SessionTimeout(time.Second))
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "below 5s") {
		t.Errorf("Open with a session timeout that is too short: %v", err)
	}
	s := mustOpenAt(t, c, zkstore.SessionTimeout(5*time.Second))
	if f := findingOf(t, s, "skipACL", "yes"); f.Advice == "" {
		t.Errorf("%+v", f)
	}
}

// If no server can be reached, Open fails soon and says why.
func TestNobodyThere(t *testing.T) {
	_, err := zkstore.Open(t.Context(), zkstore.Config{Servers: []string{"127.0.0.1:1", "127.0.0.1:2"}})
	if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
	s := mustOpen(t, "127.0.0.1:1", zkstore.Lazy())
	if _, err := s.Acquire(t.Context(), request("job")); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) {
		t.Errorf("Acquire: %v", err)
	}
}

func TestScheme(t *testing.T) {
	s := zkstore.Scheme()
	if got, _ := s.Servers(parse(t, "zookeeper://b,a:1/x")); !slices.Equal(got, []string{"a:1", "b:2181"}) {
		t.Errorf("the servers are %q", got)
	}
	for dsn, want := range map[string]string{
		"zookeeper://h":           "zookeeper://h?layout=symfony",
		"zookeeper://h:1,i:2":     "zookeeper://h:1,i:2?layout=symfony",
		"zookeeper://h/?lazy=yes": "zookeeper://h/?layout=symfony&lazy=yes",
	} {
		if u, err := s.FromSymfony(dsn); err != nil || u.String() != want {
			t.Errorf("%s is %v, %v", dsn, u, err)
		}
	}
	for _, dsn := range []string{"zookeeper:h", "zookeeper://", "zookeeper://h/path", "zookeeper://h?layout=queue"} {
		if u, err := s.FromSymfony(dsn); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s is %v, %v", dsn, u, err)
		}
	}
}
