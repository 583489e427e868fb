package etcdstore

import (
	"context"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/padlock-go/padlock/storekit"
)

// # Silent members
//
// A member that was stopped or cut off keeps its connections open and answers nothing. gRPC itself
// notices that only after probeAfter and probeFor. So if a call has lasted for slowAfter, the store
// asks all members over new connections, and over those that it has. If some of them answer within
// silentAfter and others do not, it makes a new client. The new client uses the members that answer,
// and connects to the others when they answer again. A slow cluster whose members all answer keeps
// its client. A network that forgets connections is noticed, too: the members answer over the new
// ones only.
//
// # Members of different clusters
//
// If the members of a store belong to different clusters, two processes could hold the same name.
// So a new client asks all members for their cluster, and the store compares the cluster in every
// reply. After a reply from another cluster, the store makes a new client, which asks all members
// again. If the whole cluster was replaced, for example by one that was restored from a snapshot,
// the store goes on with the new cluster.

// askFor is how long a new client waits for members that do not answer.
const askFor = 300 * time.Millisecond

// compareMembers returns an error if members of different clusters answer.
func (client *etcdClient) compareMembers(ctx context.Context) error {
	members := client.Endpoints()
	if len(members) == 1 {
		return nil
	}
	first := ""
	for _, a := range client.askMembers(ctx, askFor) {
		switch {
		case a.cluster == 0:
		case client.cluster.CompareAndSwap(0, a.cluster):
			first = a.member
		case client.cluster.Load() != a.cluster:
			return storekit.Invalidf("the members %s and %s belong to different clusters", first, a.member)
		}
	}
	return nil
}

// An answer says what a member said about itself.
type answer struct {
	member  string
	cluster uint64 // the id of its cluster, or 0
	silent  bool   // the member did not answer in time
}

// askMembers asks every member, each over a connection of its own.
func (client *etcdClient) askMembers(ctx context.Context, patience time.Duration) (all []answer) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	members := client.Endpoints()
	answers := make(chan answer, len(members))
	for _, member := range members {
		go func() {
			a := answer{member: member}
			reply, err := client.askMember(ctx, member)
			if err == nil {
				a.cluster = reply.Header.ClusterId
			}
			a.silent = err != nil && ctx.Err() != nil
			answers <- a
		}()
	}
	for range members {
		all = append(all, <-answers)
	}
	return all
}

// isStranded reports whether a connection of the client is silent: it asks as many times as there are
// members, and gRPC sends one request after the other to another member.
func (client *etcdClient) isStranded(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, silentAfter)
	defer cancel()
	members := client.Endpoints()
	answers := make(chan error, len(members))
	for range members {
		go func() {
			_, err := pb.NewMaintenanceClient(client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
			answers <- err
		}()
	}
	stranded := false
	for range members {
		stranded = <-answers != nil && ctx.Err() != nil || stranded
	}
	return stranded
}

func (client *etcdClient) askMember(ctx context.Context, member string) (*pb.StatusResponse, error) {
	conn, err := client.Dial(member)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
}
