package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
)

// Status implements driver.Reporter. It asks every member that the store was given.
func (s *Store) Status(ctx context.Context) ([]driver.Finding, error) {
	ctx, done, err := s.calls.Enter(ctx, s.conn.limits.limit)
	if err != nil {
		return nil, err
	}
	defer done()
	client, err := s.conn.getClient(ctx)
	if err != nil {
		return nil, err
	}
	members := client.Endpoints()
	var out []driver.Finding
	var failed error
	leader := uint64(0)
	for _, member := range members {
		each, stop := context.WithTimeout(ctx, maxCallTime/2)
		reply, err := client.Status(each, member)
		stop()
		if err == nil {
			err = s.conn.checkReply(client, reply.Header, nil)
		}
		name := func(n string) string {
			if len(members) == 1 {
				return n
			}
			return member + " " + n
		}
		if errors.Is(err, errOtherCluster) && len(members) > 1 {
			out = append(out, driver.Finding{Name: name("cluster"), Value: "another one",
				Advice: "it belongs to another cluster than other members; name the members of one cluster"})
			continue
		}
		if err != nil {
			failed = failure(ctx, err, false)
			out = append(out, driver.Finding{Name: name("version"), Value: driver.Unknown, Advice: "it does not answer: " + failed.Error()})
			continue
		}
		leader = max(leader, reply.Leader)
		out = append(out, memberFindings(name, reply)...)
	}
	if len(members) == 1 && failed != nil {
		return nil, failed
	}
	return append(out, leaderFinding(leader)), nil
}

func memberFindings(name func(string) string, reply *clientv3.StatusResponse) []driver.Finding {
	version := driver.Finding{Name: name("version"), Value: cmp.Or(reply.Version, driver.Unknown)}
	if storekit.OlderVersion(reply.Version, 3, 6, 5) {
		version.Advice = "before 3.6.5 a renewal may succeed though the lease has just ended; upgrade the cluster"
	}
	size := driver.Finding{Name: name("db-size"), Value: fmt.Sprintf("%d of %d bytes", reply.DbSize, reply.DbSizeQuota)}
	switch {
	case reply.DbSizeQuota == 0:
		size.Value = fmt.Sprintf("%d bytes", reply.DbSize)
	case reply.DbSize > reply.DbSizeQuota*8/10:
		size.Advice = "it is nearly full; set --auto-compaction-retention, and defragment it"
	}
	alarm := driver.Finding{Name: name("alarms"), Value: "none"}
	for _, text := range reply.Errors {
		if strings.Contains(text, pb.AlarmType_NOSPACE.String()) {
			alarm = driver.Finding{Name: alarm.Name, Value: "NOSPACE", Advice: "it grants no locks; compact and defragment it or raise its quota, then run 'etcdctl alarm disarm'"}
		} else if strings.Contains(text, pb.AlarmType_CORRUPT.String()) {
			alarm = driver.Finding{Name: alarm.Name, Value: "CORRUPT", Advice: "restore the damaged member"}
		}
	}
	out := []driver.Finding{version, size, alarm}
	if reply.IsLearner {
		out = append(out, driver.Finding{Name: name("role"), Value: "learner", Advice: "it serves no locks yet; name a voting member"})
	}
	return out
}

func leaderFinding(leader uint64) driver.Finding {
	if leader == 0 {
		return driver.Finding{Name: "leader", Value: "none", Advice: "more than half of the members must be running and see each other"}
	}
	return driver.Finding{Name: "leader", Value: strconv.FormatUint(leader, 16)}
}
