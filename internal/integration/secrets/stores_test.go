//go:build !race

package secrets

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/open/all"
)

func openedAt(t *testing.T, url string) driver.Store {
	t.Helper()
	s, err := all.Store(t.Context(), url)
	if err != nil {
		t.Fatalf("%s: %v", url, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// A store that was opened with a password, a secret key or a token shows none, also after a request
// for which it needed the secret. Nobody listens at the addresses. The clients of MongoDB, PostgreSQL
// and MySQL keep a password as a text, which only a walker through their unexported fields finds.
func TestStoresWithALogin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	noError(t, os.WriteFile(file, []byte(marker), 0o600))
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	noError(t, os.WriteFile(kubeconfig, []byte(`{current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], users: [{name: u, user: {token: `+marker+`}}]}`), 0o600))
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": marker, "AWS_SESSION_TOKEN": marker + "-session",
		"AWS_REGION": "eu-west-1", "GOOGLE_OAUTH_ACCESS_TOKEN": marker,
	} {
		t.Setenv(name, value)
	}
	const login = "app:" + marker + "@127.0.0.1:1"
	for text, clientKeepsIt := range map[string]bool{
		"redis://" + login + "?lazy=yes":                                                false,
		"redis+cluster://" + login + "?lazy=yes":                                        false,
		"etcd://" + login + "/p/?lazy=yes":                                              false,
		"zookeeper://" + login + "/p?lazy=yes":                                          false,
		"memcached://" + login + "?lazy=yes":                                            false,
		"mongodb://" + login + "/shop?lazy=yes":                                         true,
		"postgres://" + login + "/shop?lazy=yes":                                        true,
		"postgres+advisory://" + login + "/shop?lazy=yes":                               true,
		"mysql://" + login + "/shop?lazy=yes":                                           true,
		"mysql+advisory://" + login + "/shop?lazy=yes":                                  true,
		"s3://bucket/p?lazy=yes&endpoint=" + url.QueryEscape("http://127.0.0.1:1"):      false,
		"gs://bucket/p?lazy=yes&endpoint=" + url.QueryEscape("http://127.0.0.1:1"):      false,
		"dynamodb://table/p?lazy=yes&endpoint=" + url.QueryEscape("http://127.0.0.1:1"): false,
		"kubernetes:?lazy=yes&kubeconfig=" + url.QueryEscape(kubeconfig):                false,
		"padlock+http://127.0.0.1:1/?lazy=yes&token-file=" + url.QueryEscape(file):      false,
	} {
		s := openedAt(t, text)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := s.Acquire(ctx, driver.Request{Name: "job", Token: driver.TokenOf("0123456789"), TTL: time.Second})
		cancel()
		if err == nil {
			t.Errorf("%.12s…: a lock on nothing", text)
		}
		s.Close()
		for what, v := range map[string]any{"store": s, "error": err} {
			for _, how := range shown([]string{marker}, v) {
				if !clientKeepsIt || !strings.Contains(how, ", walker: ") {
					t.Errorf("%.12s…, %s (%T): %s", text, what, v, how)
				}
			}
		}
	}
}

// A store with a hold shows no token to a printer. A walker finds it in a store that keeps its holds
// in the memory of the process; such a store has to know them.
func TestStoresWithAHold(t *testing.T) {
	dir := t.TempDir()
	_, rest, _ := strings.Cut(server.Postgres(t, server.PostgresOptions{}).URL(), "://")
	name := "secrets-" + strconv.Itoa(os.Getpid()) // all programs of the machine share semaphores
	for _, text := range []string{
		"file://" + dir, "memory:",
		"sqlite://" + filepath.Join(dir, "locks.db"),
		"sqlite://" + filepath.Join(dir, "php.db") + "?layout=symfony",
		"postgres+advisory://" + rest,
		"zookeeper://" + server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr() + "/p",
		"etcd://" + server.Etcd(t, server.EtcdOptions{}).Addr() + "/p/",
		"semaphore:?hash=xxh128",
		"quorum:?store=" + url.QueryEscape("file://"+dir+"/1") + "&store=" + url.QueryEscape("file://"+dir+"/2") + "&store=" + url.QueryEscape("file://"+dir+"/3"),
	} {
		s := openedAt(t, text)
		_, err := s.Acquire(t.Context(), driver.Request{Name: name, Token: driver.TokenOf(marker), TTL: 30 * time.Second})
		noError(t, err)
		for _, how := range shown([]string{marker}, s) {
			if !strings.Contains(how, ", walker: ") {
				t.Errorf("%.12s…: %s", text, how)
			}
		}
		_, err = s.Release(t.Context(), name, marker, 0)
		noError(t, err)
	}
}
