package command

import (
	"fmt"
	"time"

	"github.com/padlock-go/padlock/observe/history"
)

// past holds the flags of history.
type past struct {
	prometheus, failed, overlaps bool
	since, until                 moments
	host                         string
	most                         int
}

func (p *past) filter() history.Filter {
	return history.Filter{Failed: p.failed, Since: p.since.Time, Host: p.host}
}

// cut returns how many of n lines are shown.
func (p *past) cut(n int) int {
	if p.most > 0 {
		return min(n, p.most)
	}
	return n
}

// moments is a flag for a time in the past.
type moments struct{ time.Time }

func (m *moments) Type() string { return "DURATION|TIME" }

func (m *moments) String() string {
	if m.IsZero() {
		return ""
	}
	return m.Format(time.RFC3339)
}

// timeForms are the forms of a time, in the time zone of the user unless they have one.
var timeForms = []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02"}

// Set reads how long ago a time was, or the time. A time without a day is the last such time.
func (m *moments) Set(text string) error {
	now := time.Now()
	if d, err := parseDays(text); err == nil {
		if d <= 0 || d > 2*aYear {
			return fmt.Errorf("a duration is above 0, and at most two years")
		}
		m.Time = now.Add(-d)
		return nil
	}
	for _, form := range timeForms {
		if t, err := time.ParseInLocation(form, text, time.Local); err == nil {
			m.Time = t
			return nil
		}
	}
	for _, form := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			m.Time = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.Local)
			if m.After(now) {
				m.Time = m.AddDate(0, 0, -1)
			}
			return nil
		}
	}
	return fmt.Errorf("write a duration, such as 12h or 2d, or a time, such as 22:00, 2026-11-20 or 2026-11-20T22:00:00Z")
}
