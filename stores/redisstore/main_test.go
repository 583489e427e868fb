package redisstore_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more tests side by side than there are processors: they mostly
// wait for servers and leases.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		if err := f.Value.Set("4"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
