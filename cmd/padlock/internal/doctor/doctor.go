// Package doctor checks whether a store is as safe for locks as it seems. It checks the settings of
// the server, the file system, the network and the clocks. It reads the URL, asks the store, and
// takes and releases locks of its own. In a database, opening the store makes its tables if they
// are missing. doctor changes nothing else.
//
// If a fact cannot be found out, the finding is Unknown, never Good.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
	"github.com/padlock-go/padlock/open"
)

// Examine checks the store of a URL. An error means that the URL is wrong (padlock.ErrInvalid). If
// the store cannot be reached, that is a finding and not an error.
func Examine(ctx context.Context, rawURL string, o Options) ([]Finding, error) {
	v := &visit{Options: o, raw: rawURL, of: open.Redacted(rawURL, o.Schemes), place: placeOf(rawURL, o.Schemes)}
	switch {
	case v.inProcess:
		v.problem("place", "locks are kept in the memory of one process",
			"two commands, or two programs, do not exclude each other",
			"use a directory (file:///var/lib/locks) or a server")
		return v.found, nil
	case o.Quick:
		return v.quickCheck(ctx)
	case v.composite:
		return v.examineParts(ctx)
	}
	err := v.examineOne(ctx)
	return v.found, err
}

// quickCheck checks that a lock can be taken and released now. It sends two requests in addition to
// those that open the store. Only "padlock doctor" takes this lock. So if the lock is held, another
// doctor has just got it, and the store works.
func (v *visit) quickCheck(ctx context.Context) ([]Finding, error) {
	if v.u.Scheme == "file" && !v.exists(systemFiles{}) {
		return v.found, nil
	}
	store, err := v.Open(ctx, v.raw, open.ForgetSoon())
	if errors.Is(err, padlock.ErrInvalid) {
		return nil, err
	}
	if err != nil {
		v.reportRefusal("reach", err)
		return v.found, nil
	}
	l := padlock.New(store)
	defer v.close(l)
	begin := time.Now()
	lock, err := l.TryAcquire(ctx, v.Name, padlock.Label("padlock doctor"), padlock.NoRenewal())
	if err == nil {
		err = lock.Release()
	}
	if err != nil && !errors.Is(err, padlock.ErrHeld) {
		v.reportRefusal("rights", err)
		return v.found, nil
	}
	v.good("rights", fmt.Sprintf("a lock was taken and released in %s", texts.Span(time.Since(begin))))
	return v.found, nil
}

// examineOne examines a store that is not made of other stores.
func (v *visit) examineOne(ctx context.Context) error {
	if v.u.Scheme == "file" {
		if there := v.directory(systemFiles{}); !there {
			return nil // opening the store would create it
		}
	} else if v.remote {
		v.network()
	}
	l, err := v.openStore(ctx)
	if l == nil {
		return err
	}
	defer v.close(l)
	if v.server(ctx, l) {
		v.examineWork(ctx, l)
	}
	return nil
}

// examineParts examines a store that is made of other stores: each member, and the store as a
// whole.
func (v *visit) examineParts(ctx context.Context) ([]Finding, error) {
	members := v.u.Query()["store"]
	first := map[string]string{} // maps the run id of a server to the member that reported this id first
	same := ""
	for _, m := range members {
		o := v.Options
		o.runs = map[string]bool{}
		o.Name += "-member" // a different name, because the fences of the whole store differ from those of its members
		found, err := Examine(ctx, m, o)
		if err != nil {
			return nil, err
		}
		v.found = append(v.found, found...)
		for id := range o.runs {
			if other, ok := first[id]; ok && same == "" {
				same = other + " and " + open.Redacted(m, v.Schemes)
			}
			first[id] = open.Redacted(m, v.Schemes)
		}
	}
	v.of = open.Redacted(v.raw, v.Schemes)
	if same != "" { // two members are the same server, even if their URLs differ
		v.problem("members", same+" are one server", "one server then has two votes, and its loss counts twice", "name each server once")
	} else {
		v.members(members)
	}
	v.checkStart(members)
	l, err := v.openStore(ctx)
	if l == nil {
		return v.found, err
	}
	defer v.close(l)
	v.examineWork(ctx, l)
	return v.found, nil
}
