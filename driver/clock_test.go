package driver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSystemClockAdvances(t *testing.T) {
	c := SystemClock()
	a := c.Now()
	<-time.After(2 * time.Millisecond)
	if d := c.Now().Sub(a); d < 2*time.Millisecond || d > 10*time.Second {
		t.Fatalf("2 ms took %v on the system clock", d)
	}
}

func TestSystemClockFollowsTheBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := SystemClock()
		a := c.Now()
		firing := make(chan Instant, 1)
		c.AfterFunc(time.Hour, func() { firing <- c.Now() })
		fired := <-firing
		<-time.After(time.Hour)
		if d := c.Now().Sub(a); d != 2*time.Hour {
			t.Errorf("two hours of the bubble took %v", d)
		}
		if d := fired.Sub(a); d != time.Hour {
			t.Errorf("AfterFunc(1h) fired after %v", d)
		}
		if SystemClock().Now() != c.Now() {
			t.Error("two clocks of one bubble disagree")
		}
	})
}

func BenchmarkNow(b *testing.B) {
	c := SystemClock()
	for b.Loop() {
		c.Now()
	}
}
