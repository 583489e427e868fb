package house

import (
	"os"
	"sync"
)

// toRoot goes to the root of the tree, from where all paths are, and fills the tables that follow
// from it. Every test that reads the tree calls it. It must not be called before the tests run:
// go test would then not see which files they read, and would repeat old results from its cache.
var toRoot = sync.OnceFunc(func() {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	everyStore = readStores()
	arrows = arrowTable()
})
