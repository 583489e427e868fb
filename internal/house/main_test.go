package house

import (
	"os"
	"testing"
)

// TestMain goes to the root of the tree, from where all paths are.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	everyStore = readStores()
	arrows = arrowTable()
	os.Exit(m.Run())
}
