package soak

import (
	"cmp"
	"slices"
	"sort"
)

// spells are intervals of time.
type spells [][2]int64

// merged returns the intervals in order and without overlaps.
func (s spells) merged() spells {
	s = slices.Clone(s)
	sort.Slice(s, func(i, j int) bool { return s[i][0] < s[j][0] })
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && x[0] <= out[n-1][1] {
			out[n-1][1] = max(out[n-1][1], x[1])
		} else {
			out = append(out, x)
		}
	}
	return out
}

// timeBetween returns how much of the given time is inside the intervals. The intervals must be
// merged.
func (s spells) timeBetween(from, to int64) (sum int64) {
	first, _ := slices.BinarySearchFunc(s, from, func(x [2]int64, at int64) int { return cmp.Compare(x[1], at) })
	for _, x := range s[first:] {
		if x[0] >= to {
			break
		}
		sum += min(x[1], to) - max(x[0], from)
	}
	return sum
}
