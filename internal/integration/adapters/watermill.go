package adapters

import (
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/watermilllock"
)

func addMiddleware(router *message.Router, locker *padlock.Locker) {
	byUUID := func(m *message.Message) string { return m.UUID }
	byCustomer := func(m *message.Message) string { return "customer:" + m.Metadata.Get("customer") }
	router.AddMiddleware(
		watermilllock.Once(locker, byUUID, time.Hour),
		watermilllock.OneAtATime(locker, byCustomer, padlock.Wait(time.Minute)),
	)
}
