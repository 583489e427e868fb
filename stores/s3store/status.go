package s3store

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/overhttp"
)

// fewestDays is the shortest time after which a rule of the bucket may delete the record of a name.
// A lease or a cool-down lasts for a day at most.
const fewestDays = 7

// Status asks the service about the bucket; see driver.Reporter.
func (b *bucket) Status(ctx context.Context) ([]driver.Finding, error) {
	return []driver.Finding{b.versioning(ctx), b.lifecycle(ctx)}, nil
}

// setting reads a setting of the bucket. It returns nil if the setting cannot be read.
func (b *bucket) setting(ctx context.Context, name string) *overhttp.Reply {
	r, err := b.Read(ctx, overhttp.Request{Query: url.Values{name: {""}}})
	if err != nil || r.Status != http.StatusOK && codeOf(r) != "NoSuchLifecycleConfiguration" {
		return nil
	}
	return r
}

func (b *bucket) versioning(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "versioning", Value: driver.Unknown}
	r := b.setting(ctx, "versioning")
	var v struct{ Status string }
	if r == nil || xml.Unmarshal(r.Body, &v) != nil {
		return f
	}
	f.Value = strings.ToLower(v.Status)
	first(&f.Value, "off")
	if f.Value == "enabled" {
		f.Advice = "each renewal keeps an old version of the record, which costs storage: take a bucket without versions, or add a rule that deletes old versions after a day"
	}
	return f
}

func (b *bucket) lifecycle(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "lifecycle", Value: driver.Unknown}
	r := b.setting(ctx, "lifecycle")
	if r == nil {
		return f
	}
	var rules struct{ Rule []rule }
	if r.Status == http.StatusOK && xml.Unmarshal(r.Body, &rules) != nil {
		return f
	}
	f.Value = "the records of free names are kept for ever"
	for _, rule := range rules.Rule {
		days, deletes := rule.days(b.prefix)
		if !deletes {
			continue
		}
		f.Value = fmt.Sprintf("records are deleted %d days after their last change", days)
		if days < fewestDays {
			f.Advice = fmt.Sprintf("set the rule to %d days or more: a younger record may still be needed", fewestDays)
			return f
		}
	}
	return f
}

// A rule deletes objects. Amazon and Google write rules in different ways.
type rule struct {
	Status, Prefix string
	Filter         struct {
		Prefix string
		And    struct{ Prefix string }
	}
	Expiration struct {
		Days int
		Date string // from then on, objects are deleted however young they are
	}

	Action    struct{ Delete *struct{} }
	Condition struct {
		Age                   *int
		CreatedBefore         string // a date
		IsLive                string
		NumberOfNewerVersions int
		MatchesPrefix         []string
	}
}

// days returns after how many days the rule deletes objects below prefix, and whether it does.
func (r *rule) days(prefix string) (days int, deletes bool) {
	at := []string{r.Prefix + r.Filter.Prefix + r.Filter.And.Prefix}
	if c := r.Condition; r.Action.Delete != nil {
		if c.IsLive == "false" || c.NumberOfNewerVersions > 0 {
			return 0, false
		}
		if c.Age != nil {
			days, deletes = *c.Age, true
		}
		if date, err := time.Parse(time.DateOnly, c.CreatedBefore); err == nil {
			days, deletes = max(days, int(time.Since(date)/(24*time.Hour))), true
		}
		if len(c.MatchesPrefix) > 0 {
			at = c.MatchesPrefix
		}
	} else if r.Status == "Enabled" {
		days, deletes = r.Expiration.Days, r.Expiration.Days > 0 || r.Expiration.Date != ""
	}
	for _, start := range at {
		if strings.HasPrefix(prefix, start) || strings.HasPrefix(start, prefix) {
			return days, deletes
		}
	}
	return 0, false
}
