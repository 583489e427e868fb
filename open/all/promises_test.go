package all_test

import (
	"os"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// packageOf says which package has the store of a scheme, where the name of the scheme does not.
var packageOf = map[string]string{
	"memory": "memstore", "file": "filestore", "redis": "redisstore", "postgres": "sqlstore", "mysql": "sqlstore", "sqlite": "sqlstore",
	"postgres+advisory": "pgadvisory", "mysql+advisory": "mysqladvisory", "semaphore": "semstore", "memcached": "memcachestore",
	"zookeeper": "zkstore", "etcd": "etcdstore", "mongodb": "mongostore", "s3": "s3store", "gs": "s3store", "dynamodb": "dynamostore", "kubernetes": "leasestore",
	"padlock+https": "httpstore",
}

// The table of docs/which-store.md agrees with the Guarantees of the stores about the end of a lock
// and about a restart. The text below it agrees with them about fences, order and shared locks.
func TestPageSaysWhatIsPromised(t *testing.T) {
	text, err := os.ReadFile("../../docs/which-store.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	found := map[string]driver.Guarantees{}
	for _, s := range open.Known(every()) {
		if s.Composite {
			continue
		}
		name := packageOf[s.Names[0]]
		if name == "" {
			t.Errorf("packageOf has no row for %s", s.Names[0])
			continue
		}
		if name == "httpstore" { // its promises are those of the store behind the server
			continue
		}
		found[name] = s.Guarantees()
	}
	for name, g := range found {
		row := pageRow(page, name)
		if row == nil {
			t.Errorf("the page has no row for %s", name)
			continue
		}
		for what, c := range map[string]struct {
			says string
			has  bool
		}{"fence": {row[3], g.Fence != driver.FenceNone}, "order": {row[4], g.FIFO}, "shared": {row[5], g.Shared}} {
			if c.has != (c.says == "yes") || !c.has && c.says != "no" && c.says != "nearly" {
				t.Errorf("the page says %q of %s and %s; its promises say %v", c.says, name, what, c.has)
			}
		}
		if want := endOf(name, &g); row[7] != want {
			t.Errorf("the page says that a lock of %s ends with %q; its promises say %q", name, row[7], want)
		}
		if !fitsRestart(row[8], &g) {
			t.Errorf("the page says of %s after a restart: %q; the store promises SurvivesRestart %v", name, row[8], g.SurvivesRestart)
		}
	}
}

// pageRow returns the cells of a row of the page's table of stores.
func pageRow(page, name string) []string {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) == 10 && strings.Contains(cells[1], "`"+name+"`") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			return cells
		}
	}
	return nil
}

func endOf(name string, g *driver.Guarantees) string {
	switch {
	case g.Bound == driver.BoundToProcess:
		return "the process"
	case g.Bound == driver.BoundToConnection && name == "zkstore":
		return "its session"
	case g.Bound == driver.BoundToConnection:
		return "its connection"
	}
	return "its time"
}

func fitsRestart(cell string, g *driver.Guarantees) bool {
	switch {
	case cell == "": // a store of one process, which has no server
		return g.InProcess
	case strings.Contains(cell, "runbook"):
		return g.SurvivesRestart != driver.PromiseYes
	}
	switch g.SurvivesRestart {
	case driver.PromiseYes:
		return cell == "locks are kept"
	case driver.PromiseNo:
		return cell == "all locks are free"
	}
	return strings.HasPrefix(cell, "locks are kept if ")
}
