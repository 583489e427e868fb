package watermilllock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/watermilllock"
	"github.com/padlock-go/padlock/stores/memstore"
)

func ExampleOnce() {
	locker := padlock.New(memstore.New())
	defer locker.Close(context.Background())
	once := watermilllock.Once(locker, func(m *message.Message) string { return m.UUID }, time.Hour)
	handle := once(func(m *message.Message) ([]*message.Message, error) {
		fmt.Println("handled", m.UUID)
		return nil, nil
	})
	for range 2 { // the broker delivers the message twice
		if _, err := handle(message.NewMessage("order-7", nil)); err != nil {
			fmt.Println(err)
		}
	}
	// Output: handled order-7
}
