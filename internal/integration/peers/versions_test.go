package peers

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/internal/server"
)

// The versions of which docs/compared.md speaks are those that the tests and benchmarks run. In tier 2,
// the log says which of them have a newer one: read what it changes, then raise both.
func TestVersionsOfPeers(t *testing.T) {
	page, err := os.ReadFile("../../../docs/compared.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, module := range map[string]string{
		"redsync": "github.com/go-redsync/redsync/v4", "redislock": "github.com/bsm/redislock", "etcd's client": "go.etcd.io/etcd/client/v3",
	} {
		said := regexp.MustCompile(regexp.QuoteMeta(name) + `\s(\d+\.\d+(?:\.\d+)?)`).FindSubmatch(page)
		if said == nil {
			t.Errorf("docs/compared.md does not say which %s it compares", name)
			continue
		}
		args := []string{"list", "-m", "-json"}
		if server.IsThorough() {
			args = append(args, "-u")
		}
		var m struct {
			Version string
			Update  *struct{ Version string }
		}
		if err := json.Unmarshal([]byte(output(t, "go", append(args, module)...)), &m); err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m.Version, "v"+string(said[1])) {
			t.Errorf("docs/compared.md compares %s %s, and the tests run %s", name, said[1], m.Version)
		}
		if m.Update != nil {
			t.Logf("%s %s is out, and docs/compared.md and the tests have %s", name, m.Update.Version, m.Version)
		}
	}
}
