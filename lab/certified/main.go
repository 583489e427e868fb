// Command certified starts the services that this machine has, one after the other, and lets
// padlock-verify certify each. It writes the certificates of docs/certified; make certified then
// makes the page.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/internal/server/fakes"
)

// durable is PostgreSQL as users run it. Tests switch fsync off.
var durable = server.PostgresOptions{Args: []string{"-c", "fsync=on", "-c", "synchronous_commit=on"}}

// services start a service each, and return the URL of its store.
var services = []struct {
	name string
	url  func(t testing.TB, dir string) string
}{
	{"redis", func(t testing.TB, _ string) string { return server.Redis(t, server.RedisOptions{}).URL() }},
	{"redis-aof", func(t testing.TB, _ string) string {
		return server.Redis(t, server.RedisOptions{Persist: true}).URL() + "?durable=yes"
	}},
	{"postgresql", func(t testing.TB, _ string) string { return server.Postgres(t, durable).URL() }},
	{"postgresql-advisory", func(t testing.TB, _ string) string {
		return "postgres+advisory" + strings.TrimPrefix(server.Postgres(t, durable).URL(), "postgres")
	}},
	{"mariadb", func(t testing.TB, _ string) string { return "mysql://root@" + server.MariaDB(t).Addr() + "/mysql" }},
	{"mariadb-named", func(t testing.TB, _ string) string {
		return "mysql+advisory://root@" + server.MariaDB(t).Addr() + "/mysql"
	}},
	{"sqlite", func(_ testing.TB, dir string) string { return "sqlite://" + filepath.Join(dir, "locks.db") }},
	{"etcd-3.4", func(t testing.TB, _ string) string {
		return "etcd://" + server.Etcd(t, server.EtcdOptions{Old: true}).Addr() + "/"
	}},
	{"etcd-3.7", func(t testing.TB, _ string) string {
		return "etcd://" + server.Etcd(t, server.EtcdOptions{}).Addr() + "/"
	}},
	{"zookeeper", func(t testing.TB, _ string) string {
		return "zookeeper://" + server.ZooKeeper(t, server.ZooKeeperOptions{}).Addr() + "/locks"
	}},
	{"memcached", func(t testing.TB, _ string) string { return "memcached://" + server.Memcached(t).Addr() }},
	{"file", func(_ testing.TB, dir string) string { return "file://" + dir }},
	{"gofakes3", func(t testing.TB, _ string) string {
		objects := s3mem.New()
		if err := objects.CreateBucket("locks"); err != nil {
			t.Fatal(err)
		}
		return inHTTP(t, gofakes3.New(objects, gofakes3.WithLogger(gofakes3.DiscardLog())).Server(), "s3://locks")
	}},
	{"fake-kubernetes", func(t testing.TB, _ string) string {
		return inHTTP(t, fakes.NewKubernetes(), "kubernetes://shop/locks")
	}},
}

// inHTTP serves a service in this process, and returns the URL of its store.
func inHTTP(t testing.TB, h http.Handler, place string) string {
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	url := place + "?endpoint=" + srv.URL
	if strings.HasPrefix(place, "s3:") {
		url += "&skew=0s"
	}
	return url
}

func main() {
	only := flag.String("only", ".", "a regular expression: only the services whose names match")
	into := flag.String("into", "../docs/certified", "the directory for the certificates")
	program := flag.String("program", "padlock-verify", "the program, built with its commit")
	span := flag.Duration("for", 30*time.Second, "how long each soak takes")
	flag.Parse()
	if err := certify(*only, *into, *program, *span); err != nil {
		fmt.Fprintln(os.Stderr, "certified: "+err.Error())
		os.Exit(1)
	}
}

// certify makes the certificates. A service that cannot be started, or certified, does not stop the
// others.
func certify(only, into, program string, span time.Duration) (all error) {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if os.Getenv(name) == "" {
			os.Setenv(name, "certified")
		}
	}
	for _, s := range services {
		if !wanted.MatchString(s.name) {
			continue
		}
		var host server.Host
		dir, err := os.MkdirTemp("", "certified")
		if err != nil {
			return err
		}
		var url string
		if err = host.Try(func(t testing.TB) { url = s.url(t, dir) }); err == nil {
			c := exec.Command(program, "--store", url, "--certify", filepath.Join(into, s.name+".json"), "--for", span.String())
			c.Stderr = os.Stderr
			var out []byte
			out, err = c.Output()
			verdict, _, _ := strings.Cut(string(out), "\n")
			fmt.Printf("%-20s %s\n", s.name, verdict)
			if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 {
				err = nil // the service broke a promise, which the certificate says
			}
		}
		host.End()
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", s.name, err))
		}
		all = errors.Join(all, os.RemoveAll(dir))
	}
	return all
}
