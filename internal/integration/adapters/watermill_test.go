package adapters

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
)

// handleMessages is a server that gets a message for each line, and notes the messages that it
// handles.
func handleMessages(p *process) error {
	router, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	if err != nil {
		return err
	}
	addMiddleware(router, p.locker)
	bus := gochannel.NewGoChannel(gochannel.Config{BlockPublishUntilSubscriberAck: true}, watermill.NopLogger{})
	router.AddConsumerHandler("orders", "orders", bus, func(m *message.Message) error { return note(p.dir, m.UUID) })
	go router.Run(context.Background())
	<-router.Running()
	for p.next() {
		m := message.NewMessage(p.lines.Text(), nil)
		m.Metadata.Set("customer", "7")
		if err := bus.Publish("orders", m); err != nil {
			return err
		}
		p.say("acknowledged")
	}
	return router.Close()
}

// Two servers in two processes get each message. One of them handles it.
func TestWatermillOnTwoServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		servers := []*child{start(t, "watermill", url, dir), start(t, "watermill", url, dir)}
		var want []string
		for i := range 5 {
			uuid := fmt.Sprint("order-", i)
			want = append(want, uuid)
			for _, s := range servers {
				s.tell(uuid)
			}
			for _, s := range servers {
				s.hear()
			}
		}
		if got := notes(t, dir); !slices.Equal(got, want) {
			t.Errorf("handled %q", got)
		}
	})
}
