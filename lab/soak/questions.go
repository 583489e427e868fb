package soak

import (
	"context"
	"fmt"
	"time"
)

// askedNames is how many names have long holds whose holders are asked to leave.
const askedNames = 2

func askedName(prefix string, i int) string { return fmt.Sprintf("%sasked:%d", prefix, i) }

// discuss takes names that are held for long until ctx ends. Most of those who wait ask the holder to
// leave, some of them again and again.
func (w *worker) discuss(ctx context.Context) {
	for ctx.Err() == nil {
		t := turn{
			name: askedName(w.dice.load.Prefix, w.dice.IntN(askedNames)), ttl: w.dice.draw().ttl, wait: longWait,
			hold: w.dice.between(0, 2500*time.Millisecond), manner: manner(w.dice.IntN(int(manners))), asks: w.dice.percent(70),
		}
		if w.dice.percent(20) {
			t.cancel = w.dice.between(1, time.Second)
			w.question(ctx, t.name)
		}
		if h := w.take(ctx, t); h != nil {
			w.change(h)
			w.release(h)
		}
	}
}
