package overhttp_test

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"testing"

	"github.com/padlock-go/padlock/storekit/overhttp"
)

// TestMetadataWithoutProxy: a proxy sees all requests but those for the metadata of the machine.
// The test runs itself again, because net/http reads the environment once.
func TestMetadataWithoutProxy(t *testing.T) {
	if os.Getenv("HTTP_PROXY") != "http://127.0.0.1:9" {
		again := exec.Command(os.Args[0], "-test.run=^TestMetadataWithoutProxy$")
		again.Env = append(os.Environ(), "HTTP_PROXY=http://127.0.0.1:9", "NO_PROXY=", "no_proxy=", "http_proxy=")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	client := overhttp.New(&url.URL{Scheme: "http", Host: "bucket.example"}, nil)
	proxy := client.HTTP.Transport.(*http.Transport).Proxy
	for text, want := range map[string]bool{
		"http://bucket.example/x":                         true,
		"http://10.0.0.1/x":                               true,
		"http://169.254.169.254/latest/meta-data":         false,
		"http://169.254.170.2/v2/credentials":             false,
		"http://[fe80::1]/latest":                         false,
		"http://metadata.google.internal/computeMetadata": false,
	} {
		q, err := http.NewRequest(http.MethodGet, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		if by, err := proxy(q); err != nil || (by != nil) != want {
			t.Errorf("%s: by %v, %v", text, by, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "192.0.2.7": false, "localhost.example.com": false, "127.0.0.1.example.com": false,
	} {
		if overhttp.Loopback(host) != want {
			t.Errorf("%q: it is this machine: %v", host, !want)
		}
	}
}
