package s3store

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// fewestDays is the shortest time after which a rule of the bucket may delete the record of a name.
// A lease or a cool-down lasts for a day at most.
const fewestDays = 7

// Status asks the service about the bucket; see driver.Reporter.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	b := s.bucket
	conditions := driver.Finding{Name: "conditional writes", Value: "refused if the condition is not met"}
	switch err := b.checkConditions(ctx); {
	case errors.Is(err, driver.ErrInvalid):
		conditions.Value, conditions.Advice = "carried out although the condition is not met", "two processes can hold one lock: keep the locks in another service"
	case err != nil:
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storekit.Patience/2)
	defer cancel()
	return []driver.Finding{
		{Name: "bucket", Value: b.base.String()},
		conditions,
		b.clock(ctx),
		b.versioning(ctx),
		b.lifecycle(ctx),
	}, nil
}

// setting reads a setting of the bucket. It returns nil if the setting cannot be read.
func (b *bucket) setting(ctx context.Context, name string) *reply {
	r, err := b.read(ctx, "", url.Values{name: {""}})
	if err != nil || r.status != http.StatusOK && r.code != "NoSuchLifecycleConfiguration" {
		return nil
	}
	return r
}

func (b *bucket) clock(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "clock", Value: driver.Unknown}
	before := time.Now()
	v, err := b.Get(ctx, "padlock-doctor")
	if err != nil {
		return f
	}
	late, early := before.Sub(v.Now.Add(time.Second)), time.Until(v.Now)
	f.Value = "this machine agrees with the service"
	if off := max(late, early); off > time.Second {
		f.Value = "this machine differs from the service by " + off.Round(time.Second).String()
		f.Advice = "set this machine's clock: the locks do not depend on it, but the service refuses requests if it is off by a quarter of an hour"
	}
	return f
}

func (b *bucket) versioning(ctx context.Context) driver.Finding {
	f := driver.Finding{Name: "versioning", Value: driver.Unknown}
	r := b.setting(ctx, "versioning")
	var v struct{ Status string }
	if r == nil || xml.Unmarshal(r.body, &v) != nil {
		return f
	}
	if f.Value = strings.ToLower(v.Status); f.Value == "" {
		f.Value = "off"
	}
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
	var rules struct {
		Rule []struct {
			Status, Prefix string
			Filter         struct {
				Prefix string
				And    struct{ Prefix string }
			}
			Expiration struct{ Days int }
		}
	}
	if r.status == http.StatusOK && xml.Unmarshal(r.body, &rules) != nil {
		return f
	}
	f.Value = "the records of free names are kept for ever"
	for _, rule := range rules.Rule {
		at := rule.Prefix + rule.Filter.Prefix + rule.Filter.And.Prefix
		days := rule.Expiration.Days
		if rule.Status != "Enabled" || days == 0 || !strings.HasPrefix(b.Prefix, at) && !strings.HasPrefix(at, b.Prefix) {
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
