// Package group sorts the names of locks into groups, for metrics and statistics.
package group

import "strings"

// Of returns the group of name: the text before the first ':' or '/', or the whole name if it has
// neither. Figures are kept for groups, because the number of names has no limit.
func Of(name string) string {
	if i := strings.IndexAny(name, ":/"); i >= 0 {
		return name[:i]
	}
	return name
}
