package padlockotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/padlock-go/padlock"
)

// labels are the attributes of a metric. Empty ones are left out.
type labels struct{ store, group, mode, outcome, reason, errorType string }

// optionFor returns an option that adds the labels to a measurement. It makes each option only once
// and keeps it for later calls. This needs little memory, because the labels have few values.
func (o *Observer) optionFor(l labels) metric.MeasurementOption {
	if known, ok := o.attributes.Load(l); ok {
		return known.(metric.MeasurementOption)
	}
	var set []attribute.KeyValue
	for _, kv := range []struct{ key, value string }{
		{"padlock.store", l.store}, {"padlock.group", l.group}, {"padlock.mode", l.mode}, {"padlock.outcome", l.outcome},
		{"padlock.reason", l.reason}, {"error.type", l.errorType},
	} {
		if kv.value != "" {
			set = append(set, attribute.String(kv.key, kv.value))
		}
	}
	made, _ := o.attributes.LoadOrStore(l, metric.WithAttributeSet(attribute.NewSet(set...)))
	return made.(metric.MeasurementOption)
}

// count updates the metrics for an event. The comments of padlock's EventKinds say which events
// begin and end an acquire and a hold.
func (o *Observer) count(ctx context.Context, e *padlock.Event) {
	i := &o.instruments
	base := labels{store: e.Store, group: o.bound.Limit(e.Store, o.group(e.Name))}
	switch e.Kind {
	case padlock.EventAcquiring:
		i.pending.Add(ctx, 1, o.optionFor(base))
	case padlock.EventAcquired, padlock.EventRefused:
		i.pending.Add(ctx, -1, o.optionFor(base))
		if e.Kind == padlock.EventAcquired {
			i.count.Add(ctx, 1, o.optionFor(base))
		}
		wait := base
		wait.mode = e.Mode.String()
		wait.outcome, wait.errorType = acquireOutcome(e.Outcome)
		i.wait.Record(ctx, e.Took.Seconds(), o.optionFor(wait))
	case padlock.EventRenewed:
		i.slack.Record(ctx, e.Slack.Seconds(), o.optionFor(base))
	case padlock.EventReleasing, padlock.EventEnded, padlock.EventLost:
		i.count.Add(ctx, -1, o.optionFor(base))
		use := base
		use.outcome = e.Outcome.String()
		i.use.Record(ctx, e.Took.Seconds(), o.optionFor(use))
		if e.Kind == padlock.EventLost {
			lost := base
			lost.reason = e.Outcome.String()
			i.lost.Add(ctx, 1, o.optionFor(lost))
		}
	}
}

// acquireOutcome returns the attributes padlock.outcome and error.type of an acquire.
func acquireOutcome(out padlock.Outcome) (outcome, errorType string) {
	switch out {
	case padlock.OutcomeAcquired, padlock.OutcomeHeld, padlock.OutcomeTimeout, padlock.OutcomeCanceled:
		return out.String(), ""
	}
	return "error", out.String()
}

// Election adds the metric padlock.election.leading for the candidate e, such as an
// *election.Election. The argument name becomes the value of the attribute padlock.election. To end
// the registration, call Unregister of the result.
func (o *Observer) Election(name string, e interface{ Leads() bool }) (metric.Registration, error) {
	with := metric.WithAttributes(attribute.String("padlock.election", name))
	return o.meter().RegisterCallback(func(_ context.Context, to metric.Observer) error {
		leads := int64(0)
		if e.Leads() {
			leads = 1
		}
		to.ObserveInt64(o.instruments.leading, leads, with)
		return nil
	}, o.instruments.leading)
}

// Stampede adds the metrics padlock.stampede.gets, .runs and .errors of a *stampede.Cache. The
// argument name becomes the value of the attribute padlock.cache. To end the registration, call
// Unregister of the result.
func (o *Observer) Stampede(name string, c interface {
	Figures() (hits, stale, misses, runs, errors uint64)
}) (metric.Registration, error) {
	cache := attribute.String("padlock.cache", name)
	i := &o.instruments
	return o.meter().RegisterCallback(func(_ context.Context, to metric.Observer) error {
		hits, stale, misses, runs, errors := c.Figures()
		for result, n := range map[string]uint64{"hit": hits, "stale": stale, "miss": misses} {
			to.ObserveInt64(i.gets, int64(n), metric.WithAttributes(cache, attribute.String("padlock.result", result)))
		}
		to.ObserveInt64(i.runs, int64(runs), metric.WithAttributes(cache))
		to.ObserveInt64(i.failures, int64(errors), metric.WithAttributes(cache))
		return nil
	}, i.gets, i.runs, i.failures)
}
