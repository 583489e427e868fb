package all_test

import (
	"slices"

	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/open/all"
)

// every passes the schemes of all stores.
func every() open.Option { return open.Schemes(all.Schemes()...) }

// names are all beginnings of URLs, without the colon.
func names() []string {
	var names []string
	for _, s := range open.Known(every()) {
		names = append(names, s.Names...)
		for _, n := range s.Symfony {
			names = append(names, "symfony+"+n)
		}
	}
	slices.Sort(names)
	return names
}
