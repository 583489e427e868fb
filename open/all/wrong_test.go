package all_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// A mould makes URLs that have one mistake. Each has a scheme for SCHEME, and a host for HOST. A
// parameter may follow the text of the URL.
type mould struct {
	schemes []string
	url     string
	several bool     // a URL may have several hosts
	noHost  bool     // a URL without a host is correct
	wrong   []string // parameters with a wrong value; the last one of each name is also given twice
}

var moulds = []mould{
	{
		schemes: []string{"redis", "rediss"}, url: "SCHEME://HOST/0?",
		wrong: []string{"max-ttl=5", "max-ttl=-5s", "max-ttl=25h", "fence-keep=1s", "replicas=1",
			"db=-1", "db=x", "lazy=maybe", "durable=", "fences=1", "layout=list", "restart-guard=no", "eviction=yes", "client-name=a%20b"},
	},
	{schemes: []string{"redis+unix"}, url: "SCHEME:///nowhere?", noHost: true, wrong: []string{"max-ttl=5", "db=x"}},
	{schemes: []string{"redis+sentinel", "rediss+sentinel"}, url: "SCHEME://HOST/main?", several: true, wrong: []string{"db=x", "max-ttl=5"}},
	{schemes: []string{"redis+cluster", "rediss+cluster"}, url: "SCHEME://HOST?", several: true, wrong: []string{"db=1", "max-ttl=5"}},
	{
		schemes: []string{"postgres", "postgresql"}, url: "SCHEME://HOST/db?sslmode=disable&", several: true, noHost: true,
		wrong: []string{"pool=0", "pool=x", "lazy=maybe", "notify=", "schema=a%20b", "connect_timeout=x", "port=99999", "target_session_attrs=x", "sslmode=x"},
	},
	{
		schemes: []string{"postgres+advisory", "postgresql+advisory"}, url: "SCHEME://HOST/db?sslmode=disable&", several: true, noHost: true,
		wrong: []string{"max-holds=10", "loss-delay=5", "loss-delay=1ms", "lazy=maybe", "fences=1", "layout=x", "schema=a%20b", "port=99999", "connect_timeout=x"},
	},
	{
		schemes: []string{"mysql", "mariadb"}, url: "SCHEME://HOST/db?",
		wrong: []string{"pool=0", "pool=x", "lazy=maybe", "schema=a%20b", "timeout=5", "readTimeout=x", "tls=x", "compress=maybe"},
	},
	{
		schemes: []string{"mysql+advisory", "mysql2+advisory", "mariadb+advisory"}, url: "SCHEME://HOST/db?",
		wrong: []string{"max-holds=10", "loss-delay=5", "loss-delay=1ms", "session-timeout=5s", "lazy=maybe", "fences=1", "layout=x", "schema=a%20b", "timeout=5"},
	},
	{schemes: []string{"sqlite"}, url: "SCHEME:///dev/null/padlock.db?", noHost: true, wrong: []string{"pool=0", "pool=x", "lazy=maybe"}},
	{
		schemes: []string{"etcd", "etcds"}, url: "SCHEME://HOST?", several: true,
		wrong: []string{"lazy=maybe", "tls=maybe", "prefix="},
	},
	{
		schemes: []string{"zookeeper", "zk"}, url: "SCHEME://HOST?", several: true,
		wrong: []string{"session-timeout=5", "session-timeout=1ms", "session-timeout=-5s", "lazy=maybe", "fences=1", "layout=x"},
	},
	{
		schemes: []string{"mongodb"}, url: "SCHEME://HOST/db?", several: true,
		wrong: []string{"lazy=maybe", "layout=x", "connectTimeoutMS=x", "maxPoolSize=-1", "tls=maybe"},
	},
	{
		schemes: []string{"s3"}, url: "SCHEME://bucket/locks?region=eu-west-1&endpoint=http://127.0.0.1:1&", noHost: true,
		wrong: []string{"lazy=maybe", "skew=5", "skew=-1s", "path-style=maybe"},
	},
	{
		schemes: []string{"gs"}, url: "SCHEME://bucket/locks?endpoint=http://127.0.0.1:1&", noHost: true,
		wrong: []string{"lazy=maybe", "skew=5", "skew=-1s", "region=eu"},
	},
	{
		schemes: []string{"dynamodb"}, url: "SCHEME://table/locks?region=eu-west-1&endpoint=http://127.0.0.1:1&", noHost: true,
		wrong: []string{"lazy=maybe", "skew=5", "skew=-1s"},
	},
	{schemes: []string{"kubernetes"}, url: "SCHEME://shop?endpoint=http://127.0.0.1:1&", noHost: true, wrong: []string{"lazy=maybe", "clock=x", "ca-file=/dev/null"}},
	{
		schemes: []string{"padlock+https", "padlock+http"}, url: "SCHEME://HOST?", several: true,
		wrong: []string{"lazy=maybe", "plaintext=maybe", "token-file=", "cert="},
	},
	{schemes: []string{"memcached"}, url: "SCHEME://HOST?", wrong: []string{"lazy=maybe", "tls=maybe", "layout=x"}},
	{schemes: []string{"semaphore"}, url: "SCHEME:?", noHost: true, wrong: []string{"hash=x"}},
	{schemes: []string{"file"}, url: "SCHEME:///dev/null/locks?", noHost: true, wrong: []string{"max-open=1", "create=maybe", "world=", "nfs=yes"}},
	{schemes: []string{"quorum", "all"}, url: "SCHEME:?store=memory:&store=memory:&", noHost: true, wrong: []string{"fences=1"}},
}

// urls returns the URLs with a mistake of one scheme.
func (m mould) urls(scheme string) (urls []string) {
	form := strings.Replace(m.url, "SCHEME", scheme, 1)
	const there = "127.0.0.1:1"
	if strings.Contains(form, "HOST") {
		hosts := []string{"127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:99999", "127.0.0.1:123456789012345678901", "[::1]:99999", "127.0.0.1:x", "127.0.0.1:-1"}
		if !m.noHost {
			hosts = append(hosts, "", ":1")
		}
		if m.several && !m.noHost {
			hosts = append(hosts, ","+there, there+",,"+there, there+",")
		}
		if m.several {
			hosts = append(hosts, there+","+"127.0.0.1:99999", "127.0.0.1,127.0.0.1:0")
		}
		for _, host := range hosts {
			urls = append(urls, strings.Replace(form, "HOST", host, 1))
		}
		form = strings.Replace(form, "HOST", there, 1)
	}
	urls = append(urls, form+"no-such-parameter=1", form+"%zz=1", form+"=1")
	for i, p := range m.wrong {
		urls = append(urls, form+p)
		name, _, _ := strings.Cut(p, "=")
		if i == len(m.wrong)-1 || !strings.HasPrefix(m.wrong[i+1], name+"=") {
			urls = append(urls, form+p+"&"+p)
		}
	}
	return urls
}

// right are parameters with a correct value that a URL may have only once.
var right = map[string]string{"redis": "lazy=yes", "postgres": "connect_timeout=1", "postgres+advisory": "connect_timeout=1", "mysql": "timeout=1s", "mysql+advisory": "timeout=1s"}

// Every store refuses a wrong URL before it connects, and calls it wrong. A caller can then tell a
// wrong URL from a server that is down.
func TestWrongURLs(t *testing.T) {
	var seen []string
	for _, m := range moulds {
		for _, scheme := range m.schemes {
			seen = append(seen, scheme)
			urls := m.urls(scheme)
			if p := right[scheme]; p != "" {
				form := strings.NewReplacer("SCHEME", scheme, "HOST", "127.0.0.1:1").Replace(m.url)
				urls = append(urls, form+p+"&"+p)
			}
			for _, rawURL := range urls {
				checkWrong(t, rawURL)
			}
		}
	}
	for _, s := range open.Known(every()) {
		for _, name := range s.Names {
			if !slices.Contains(seen, name) && name != "memory" && name != "mongodb+srv" { // mongodb+srv asks a name server
				t.Errorf("the table has no row for %s:", name)
			}
		}
	}
}

func checkWrong(t *testing.T, rawURL string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	s, err := all.Store(ctx, rawURL)
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%s: %v; want ErrInvalid", rawURL, err)
	} else if strings.ContainsAny(err.Error(), "\n\t") {
		t.Errorf("%s: the error has several lines: %q", rawURL, err)
	}
}
