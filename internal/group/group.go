// Package group chooses the group of a lock's name for figures.
package group

import "strings"

// Of returns the text before the first ':' or '/' of name, or the whole name if it has neither. The
// number of names has no limit, so figures are kept by group.
func Of(name string) string {
	if i := strings.IndexAny(name, ":/"); i >= 0 {
		return name[:i]
	}
	return name
}
