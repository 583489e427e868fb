package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/redis/rueidis"
)

// The contract is asked with fences far above the clock. No store forgets the last fence of a name
// before the clock has passed it, so such names stay. Stores cannot delete a name: for all others that
// would be a mistake.
const (
	butRaised   = ", but those of some names whose fence was raised far above the clock never"
	rowsStay    = "a row for each name; padlock removes it after a day" + butRaised
	recordStays = "a small record for each name; no store of this kind removes one"
	redisStays  = "some thirty keys, whose fences were raised far above the clock, for 400 days and longer; redis-cli --scan with a pattern finds them"
)

// stays says by kind of store what is left behind.
var stays = map[string]string{
	"file": "", "memcached": "", "semaphore": "",
	"http":       "what the store behind the service keeps",
	"redis":      redisStays,
	"postgresql": rowsStay, "mysql": rowsStay, "sqlite": rowsStay, "postgres-advisory": rowsStay, "mysql-advisory": rowsStay,
	"s3": recordStays, "gs": recordStays, "dynamodb": recordStays, "kubernetes": recordStays,
	"zookeeper": "an empty node for each name",
	"etcd":      "a key for each name; etcd removes it after a week" + butRaised,
	"mongodb":   "a document for each name; MongoDB removes it after a week" + butRaised,
}

// noteLeft notes what stays in the service. It removes it first, if that is simple: on one server of
// Redis.
func (c *certification) noteLeft(ctx context.Context) {
	c.paper.Names, c.paper.Left = c.base, stays[c.paper.Kind]
	if c.paper.Kind == "redis" && c.removeKeys(ctx) {
		c.paper.Left = ""
	}
}

// removeKeys deletes the keys of one Redis server that have the random text of this certification in
// their names, and reports whether it found them.
func (c *certification) removeKeys(ctx context.Context) bool {
	u, err := url.Parse(c.url)
	if err != nil {
		return false
	}
	u.RawQuery = "" // padlock's parameters
	o, err := rueidis.ParseURL(u.String())
	if err != nil {
		return false // several servers
	}
	o.ForceSingleClient, o.DisableCache = true, true
	r, err := rueidis.NewClient(o)
	if err != nil {
		return false
	}
	defer r.Close()
	removed := 0
	for cursor := uint64(0); ; {
		e, err := r.Do(ctx, r.B().Scan().Cursor(cursor).Match("*"+c.base+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			return false
		}
		for _, key := range e.Elements {
			if !strings.Contains(key, c.base) {
				continue
			}
			if err := r.Do(ctx, r.B().Unlink().Key(key).Build()).Error(); err != nil {
				return false
			}
			removed++
		}
		if cursor = e.Cursor; cursor == 0 {
			return removed > 0
		}
	}
}
