package padlockotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// buckets are the bounds of all histograms, in seconds.
var buckets = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}

// instruments are the metrics that events change.
type instruments struct {
	wait, use, slack     metric.Float64Histogram
	count, pending       metric.Int64UpDownCounter
	lost                 metric.Int64Counter
	leading              metric.Int64ObservableGauge
	gets, runs, failures metric.Int64ObservableCounter
}

func (i *instruments) make(m metric.Meter) error {
	var errs []error
	histogram := func(name, description string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	upDown := func(name, unit, description string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	i.wait = histogram("padlock.lock.wait_time", "How long acquires took.")
	i.use = histogram("padlock.lock.use_time", "How long locks were held.")
	i.slack = histogram("padlock.lock.renewal_slack", "How much of the lease was left when a renewal was confirmed.")
	i.count = upDown("padlock.lock.count", "{lock}", "Locks that are held.")
	i.pending = upDown("padlock.lock.pending_requests", "{request}", "Acquires that wait for a lock.")
	var err error
	i.lost, err = m.Int64Counter("padlock.lock.lost", metric.WithUnit("{lock}"), metric.WithDescription("Locks that ended under their holder."))
	errs = append(errs, err)
	observed := func(name, unit, description string) metric.Int64ObservableCounter {
		c, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	i.gets = observed("padlock.stampede.gets", "{call}", "Calls of Get, by their result.")
	i.runs = observed("padlock.stampede.runs", "{call}", "Calls of the function that makes a value.")
	i.failures = observed("padlock.stampede.errors", "{call}", "Calls of the function that failed.")
	i.leading, err = m.Int64ObservableGauge("padlock.election.leading", metric.WithUnit("1"), metric.WithDescription("1 if this candidate leads."))
	return errors.Join(append(errs, err)...)
}
