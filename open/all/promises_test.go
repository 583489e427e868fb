package all_test

import (
	"os"
	"slices"
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
		if len(row) != 7 {
			t.Errorf("the page has no row for %s: %q", name, row)
			continue
		}
		if want := endOf(name, &g); row[4] != want {
			t.Errorf("the page says that a lock of %s ends with %q; its promises say %q", name, row[4], want)
		}
		if !fitsRestart(row[5], &g) {
			t.Errorf("the page says of %s after a restart: %q; the store promises SurvivesRestart %v", name, row[5], g.SurvivesRestart)
		}
	}
	without := func(keep func(driver.Guarantees) bool) (names []string) {
		for name, g := range found {
			if !keep(g) {
				names = append(names, name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	says := strings.Join(strings.Fields(page), " ")
	for sentence, names := range map[string][2][]string{
		"All of them but `memcachestore` and `semstore` have [fences](fences.md)": {
			{"memcachestore", "semstore"}, without(func(g driver.Guarantees) bool { return g.Fence != driver.FenceNone })},
		"(`quorum`, `mongostore`, `s3store`, `dynamostore`, `leasestore` and `httpstore` without order, `pgadvisory` and `mysqladvisory` nearly in order)": {
			{"dynamostore", "leasestore", "memcachestore", "mongostore", "mysqladvisory", "pgadvisory", "s3store", "semstore"}, without(func(g driver.Guarantees) bool { return g.FIFO })},
		"All but these two and `mysqladvisory` can share a lock among readers": {
			{"memcachestore", "mysqladvisory", "semstore"}, without(func(g driver.Guarantees) bool { return g.Shared })},
	} {
		if !strings.Contains(says, sentence) {
			t.Errorf("the page does not say %q any more: change this test, too", sentence)
		}
		if !slices.Equal(names[0], names[1]) {
			t.Errorf("the page says %q; the promises except %v", sentence, names[1])
		}
	}
}

// pageRow returns the cells of a row of the page's table of stores.
func pageRow(page, name string) []string {
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) > 5 && strings.Contains(cells[2], "`"+name+"`") {
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
		return "its release or the process"
	case g.Bound == driver.BoundToConnection && name == "zkstore":
		return "its release or its session"
	case g.Bound == driver.BoundToConnection:
		return "its release or its connection"
	}
	return "its release or its time"
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
