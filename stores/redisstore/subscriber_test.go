package redisstore

import (
	"testing"

	"github.com/padlock-go/padlock/driver"
	"github.com/redis/rueidis"
)

// TestMessagesFromOutside: only messages that scripts publish reach waiters. In particular, a
// message from outside cannot tell a waiter that it has a grant.
func TestMessagesFromOutside(t *testing.T) {
	s := newStore(defaults())
	defer s.Close()
	w := s.subscriber.add(&driver.Request{Name: "job"}, true)
	for text, passed := range map[string]bool{
		"h 1 7": true, "f 1 7": true, "b 1": true, "l 0": true,
		"g 1 7": false, "p 1": false, "x 1": false, "": false, "h": false, "h x 7": false, "hh 1 7": false, "h 2 7": false,
	} {
		s.subscriber.receive(rueidis.PubSubMessage{Message: text})
		if got := len(w.called) == 1; got != passed {
			t.Errorf("the message %q is passed on: %v", text, got)
		}
		for len(w.called) > 0 {
			<-w.called
		}
	}
}

// TestHandOverAfterLeaving: a waiter has given up, and the server has not confirmed that it is out of
// the queue. If the name is handed over to it, it gives the name up at once, and only then.
func TestHandOverAfterLeaving(t *testing.T) {
	s := newStore(defaults())
	sub := &s.subscriber
	w := sub.add(&driver.Request{Name: "job"}, true)
	given := 0
	w.giveUp = func() { given++ }
	sub.leaves(w)
	sub.remove(w)
	for _, text := range []string{"f 1 7", "h 2 7", "h 1 7"} {
		sub.receive(rueidis.PubSubMessage{Message: text})
	}
	sub.hasLeft(w)
	sub.receive(rueidis.PubSubMessage{Message: "h 1 8"})
	if err := s.Close(); err != nil || given != 1 { // Close waits for what receive has begun
		t.Errorf("the waiter gave up %d times, want once; Close: %v", given, err)
	}
}
