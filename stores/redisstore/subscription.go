package redisstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/redis/rueidis"
)

// subscription is one connection on which waiters receive messages. Messages that are sent while
// the connection is down are lost. So the waiters look at their names when it is up again.
//
// In a cluster, PUBLISH sends a message to all servers. SPUBLISH sends a message only to the
// primary that has the slot of the channel, which costs less. So, if the cluster supports SPUBLISH,
// the store has one subscription for each primary. The channel of a subscription is in a slot of
// its primary.
//
// Every subscription also receives messages of PUBLISH. An older padlock always sends with PUBLISH.
// This version also uses PUBLISH if SPUBLISH has reached nobody, for example because the slot has
// moved, or because the user has no right to SPUBLISH.
//
//	state  when a subscription enters it                    its waiters
//	down   it is new, or its connection was lost            get no messages, and look now and then
//	up     the server has confirmed it                      look at once, and then receive messages
//	over   the slot of its channel moved to another         look at once, and choose another
//	       primary, sharded messages were refused, or       subscription
//	       Close
//
// The transitions are down → up, over; up → down, over.
type subscription struct {
	sub     *subscriber
	primary string // "" if its messages go through all servers
	channel string

	up  chan struct{} // is closed while the state is up, and open otherwise; subscriber.mu guards it
	err error         // why the subscription is down; subscriber.mu guards it

	suspect chan struct{} // receives a value if the subscription may be dead and must be tried
	moved   chan struct{} // receives a value if the slot of the channel may have moved
	echo    chan int64    // the numbers of the trial messages that arrived
}

// newSubscription makes a subscription with a new channel. If primary is not empty, the channel's
// slot belongs to that primary. newSubscription returns nil if it finds no such channel.
func newSubscription(sub *subscriber, primary string, owners hashSlotOwners) *subscription {
	channel, ok := newID(), true
	if primary != "" {
		channel, ok = owners.channelOf(primary)
	}
	if !ok {
		return nil
	}
	return &subscription{
		sub: sub, primary: primary, channel: channel, up: make(chan struct{}),
		suspect: make(chan struct{}, 1), moved: make(chan struct{}, 1), echo: make(chan int64, 1),
	}
}

// stays reports whether the primary of n still has the slot of n's channel.
func (n *subscription) stays(owners hashSlotOwners) bool {
	return n.primary == "" || n.primary == owners.primaryOf(hashSlotOf(shardChannel(n.channel)))
}

// listen subscribes, and subscribes again whenever the connection is lost. It returns when another
// subscription takes over, or after Close.
func (n *subscription) listen() {
	s := n.sub.s
	for pause := time.Millisecond; s.calls.Closing.Err() == nil; pause = min(2*pause, time.Second) {
		since := time.Now()
		err := n.subscribe()
		n.down(err)
		if err == errOver {
			n.over()
			return
		}
		if time.Since(since) > time.Second {
			pause = time.Millisecond
		}
		storekit.Sleep(s.calls.Closing, spread(pause))
	}
}

var errOver = errors.New("another subscription takes over")

// subscribe makes the connection, and returns when it is lost. It returns errOver if another
// subscription must take over.
func (n *subscription) subscribe() error {
	s := n.sub.s
	select {
	case <-n.moved: // the owners are read below
	default:
	}
	turns := s.checks.turns.Load()
	c, err := s.ready(s.calls.Closing, false)
	if err != nil {
		return err
	}
	if !n.stays(c.owners) {
		return errOver
	}
	d, giveBack := c.Dedicate()
	defer giveBack()
	defer d.Close() // so that the connection, which may be half dead, does not go back into the pool
	// Hooks run in the goroutine that reads, so no other goroutine has to wake.
	lost := d.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: n.receive,
		OnSubscription: func(u rueidis.PubSubSubscription) {
			switch u.Kind {
			case "subscribe":
				n.subscribed()
			case "sunsubscribe": // the server sends it when the slot moves away
				n.hashSlotMoved()
			}
		},
	})
	if n.primary != "" {
		err := d.Do(s.calls.Closing, d.B().Ssubscribe().Channel(shardChannel(n.channel)).Build()).Error()
		if unknownOrForbidden(err) {
			n.sub.noteRefusal(c.owners)
			return errOver
		}
		if err != nil {
			return err
		}
	}
	if err := d.Do(s.calls.Closing, d.B().Subscribe().Channel(allChannel(n.channel)).Build()).Error(); err != nil {
		return err
	}
	// If no other connection was made or lost meanwhile, this one need not be checked: it has just
	// replied.
	if s.checks.turns.Load() == turns+1 {
		select {
		case <-n.suspect:
		default:
		}
	}
	return n.watch(d, lost)
}

func unknownOrForbidden(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "unknown command"))
}

// noteRefusal is called when the server has refused sharded messages. Until the owners of the slots
// change, the waiters of this store use PUBLISH.
func (sub *subscriber) noteRefusal(owners hashSlotOwners) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	sub.refused = owners
}

// watch returns when the connection is lost or the slot has moved.
//
// The subscription usually writes nothing on the connection, so its watchdog (see watchedConn) does
// not notice a frozen or replaced server. So watch tests the connection after each call of
// maybeDead, at most once a second: it sends a message to itself.
func (n *subscription) watch(d rueidis.DedicatedClient, lost <-chan error) error {
	suspect := n.suspect
	var pause <-chan time.Time
	for trial := int64(1); ; {
		select {
		case err := <-lost:
			return err
		case <-n.sub.s.calls.Closing.Done():
			return driver.ErrClosed
		case <-n.moved:
			return errMoved
		case <-pause: // the owners of the slots have usually been checked by now
			if !n.stays(n.sub.s.checks.client.Load().owners) {
				return errMoved
			}
			suspect = n.suspect
		case <-suspect:
			if err := n.try(d, lost, trial); err != nil {
				return err
			}
			trial++
			suspect, pause = nil, time.After(time.Second)
		}
	}
}

// maybeDead is called when a connection was made or lost, or a waiter has missed a message. It
// makes the subscription check whether messages still arrive.
func (n *subscription) maybeDead() { signal(n.suspect) }

// hashSlotMoved is called when the server says that the slot has moved. It ends the connection. The
// next connection is made when the new owners of the slots are known.
func (n *subscription) hashSlotMoved() { signal(n.moved) }

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

var (
	errDeaf  = errors.New("messages do not arrive")
	errMoved = errors.New("a slot has moved")
)

// try sends a PING on the connection of the subscription. Then it publishes a message, as scripts
// do. It returns an error if the PING gets no reply, or if the message does not arrive.
func (n *subscription) try(d rueidis.DedicatedClient, lost <-chan error, trial int64) error {
	ctx, cancel := context.WithTimeout(n.sub.s.calls.Closing, silenceLimit)
	defer cancel()
	if err := d.Do(ctx, d.B().Ping().Build()).Error(); err != nil {
		return err
	}
	select {
	case <-n.echo: // the message of an earlier trial
	default:
	}
	receivers, err := n.publish(ctx, string(msgTrial)+" "+itoa(trial))
	if err == nil && receivers == 0 && n.counted() {
		// The subscription is at another server than the one that sends the messages. A demoted
		// server even receives them, as a replica, but scripts do not count its subscribers.
		return errDeaf
	}
	if _, refused := rueidis.IsRedisErr(err); refused {
		return nil // the user may not publish
	}
	if err != nil { // the message could not be sent; try again later
		n.maybeDead()
		return nil
	}
	for {
		select {
		case got := <-n.echo:
			if got == trial {
				return nil
			}
		case err := <-lost:
			return err
		case <-ctx.Done():
			return errDeaf
		}
	}
}

// publish sends a message as scripts do. It returns how many subscribers of the server that has sent
// it have received it.
func (n *subscription) publish(ctx context.Context, text string) (receivers int64, err error) {
	c := n.sub.s.checks.client.Load()
	if n.primary != "" {
		return c.Do(ctx, c.B().Spublish().Channel(shardChannel(n.channel)).Message(text).Build()).AsInt64()
	}
	return c.Do(ctx, c.B().Publish().Channel(allChannel(n.channel)).Message(text).Build()).AsInt64()
}

// counted reports whether PUBLISH counts the subscription. In a cluster it counts only the
// subscribers at one node.
func (n *subscription) counted() bool {
	return n.sub.s.checks.client.Load().Mode() != rueidis.ClientModeCluster
}

func (n *subscription) subscribed() {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	select {
	case <-n.up:
	default:
		close(n.up)
	}
	n.sub.lookAll(n)
}

func (n *subscription) down(err error) {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	n.err = err
	select {
	case <-n.up:
		n.up = make(chan struct{})
	default:
	}
}

// over removes n from the subscriber, and makes n's waiters choose another subscription.
func (n *subscription) over() {
	n.sub.mu.Lock()
	defer n.sub.mu.Unlock()
	delete(n.sub.subscriptions, n.primary)
	n.sub.lookAll(n)
}

// receive passes a message on to its waiter.
func (n *subscription) receive(m rueidis.PubSubMessage) {
	if number, ok := strings.CutPrefix(m.Message, string(msgTrial)+" "); ok {
		select {
		case n.echo <- atoi(number):
		default:
		}
		return
	}
	n.sub.receive(m)
}
