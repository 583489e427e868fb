// Package measure runs trials and makes tables of their results. A table has medians, and may have
// ratios and targets. Trials are run in rounds. Each row of the table has one trial in each round,
// and each round starts with another row.
package measure

import (
	"math"
	"slices"
	"time"
)

// Median returns the median of values. It ignores NaNs: a NaN stands for a round in which the row
// failed. If there are no other values, the result is NaN.
func Median(values []float64) float64 {
	v := make([]float64, 0, len(values))
	for _, x := range values {
		if !math.IsNaN(x) {
			v = append(v, x)
		}
	}
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// Jain returns Jain's index of fairness for n parties, where amounts says how much each party got.
// It is 1 if all got the same, 1/n if one party got everything, and NaN if nobody got anything.
func Jain(amounts []float64) float64 {
	var sum, squares float64
	for _, x := range amounts {
		sum += x
		squares += x * x
	}
	return sum * sum / (float64(len(amounts)) * squares)
}

// Times are durations in nanoseconds, in any order.
type Times []int64

// Micros returns the quantile q of t in microseconds, or NaN if t is empty. It sorts t.
func (t Times) Micros(q float64) float64 {
	if len(t) == 0 {
		return math.NaN()
	}
	slices.Sort(t)
	rank := int(math.Ceil(q*float64(len(t)))) - 1
	return float64(t[max(0, rank)]) / float64(time.Microsecond)
}

// Micros returns d in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
