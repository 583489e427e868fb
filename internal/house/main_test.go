package house

import (
	"os"
	"sync"
)

// toRoot changes to the root directory of the tree, because all paths here are relative to it. Then
// it fills the tables that depend on the tree. Every test that reads the tree calls toRoot. Nothing
// may call it before the tests run: go test would then not see which files the tests read, and
// would repeat old results from its cache.
var toRoot = sync.OnceFunc(func() {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	everyStore = readStores()
	arrows = arrowTable()
})
