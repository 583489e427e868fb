//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An order is one line of input for a child.
type order struct {
	Key   string
	Calls int           // number of calls at once, if Rate is 0
	Rate  int           // calls per second
	Lasts time.Duration // how long the calls at this rate go on
	Takes time.Duration // how long the function takes
	TTL   time.Duration
	Fails bool // whether the function fails
}

// A tally is a line that a child writes to its parent. At the end of an order, the child writes a
// tally with the results. If the child runs the function, it announces the first run with an
// earlier tally, in which only Begun is set.
type tally struct {
	Begun  bool // the function has begun; all other fields are empty
	Runs   int
	Peak   int64    // the largest number of runs at the same time, over all processes
	Values []string // the different values that calls returned
	Took   []int64  // duration of each call, in nanoseconds
	Late   int      // calls that waited for the function although there was a value from an earlier run
	Errors int
	Error  string // one of the errors
}

// identity is a child's row and server.
type identity struct{ Row, Addr string }

// play is the main function of a child.
func play(who identity) error {
	c := &child{raw: redis.NewClient(&redis.Options{Addr: who.Addr}), out: json.NewEncoder(os.Stdout)}
	for _, x := range contestants {
		if x.name != who.Row {
			continue
		}
		var err error
		if c.get, err = x.open(context.Background(), who.Addr); err != nil {
			return err
		}
	}
	if c.get == nil {
		return errors.New("there is no row " + who.Row)
	}
	if err := c.warm(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return err
		}
		if err := c.obey(o); err != nil {
			return err
		}
	}
	return nil
}

// child is one process of a trial.
type child struct {
	get getter
	raw *redis.Client

	mu  sync.Mutex
	out *json.Encoder
	t   tally
}

// warm opens the connections.
func (c *child) warm() error {
	_, err := c.get(context.Background(), fmt.Sprint("warm:", os.Getpid()), time.Minute, func(context.Context) (string, error) { return "", nil })
	if err != nil {
		return err
	}
	return c.say(tally{})
}

func (c *child) say(t tally) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.Encode(t)
}

func (c *child) obey(o order) error {
	c.mu.Lock()
	c.t = tally{}
	c.mu.Unlock()
	var calls sync.WaitGroup
	if o.Calls > 0 {
		for range o.Calls {
			calls.Go(func() { c.call(o, false) })
		}
	} else {
		c.callSteadily(o, &calls)
	}
	calls.Wait()
	c.mu.Lock()
	t := c.t
	c.mu.Unlock()
	return c.say(t)
}

// callSteadily makes calls at the rate of o. If a call is late, it begins at once.
func (c *child) callSteadily(o order, calls *sync.WaitGroup) {
	start := time.Now()
	for i := range int(o.Lasts.Seconds() * float64(o.Rate)) {
		at := time.Second * time.Duration(i) / time.Duration(o.Rate)
		time.Sleep(time.Until(start.Add(at)))
		calls.Go(func() { c.call(o, at > 2*o.Takes) })
	}
}

// call gets the value once. hasValue is true if a value has certainly been made before this call.
func (c *child) call(o order, hasValue bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	start := time.Now()
	v, err := c.get(ctx, o.Key, o.TTL, func(ctx context.Context) (string, error) { return c.run(ctx, o) })
	took := time.Since(start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t.Took = append(c.t.Took, int64(took))
	if hasValue && took > o.Takes/2 && madeAt(v).After(start) {
		c.t.Late++
	}
	if err != nil {
		c.t.Errors++
		c.t.Error = err.Error()
	} else if !slices.Contains(c.t.Values, v) && len(c.t.Values) < 300 {
		c.t.Values = append(c.t.Values, v)
	}
}

// runningKey returns the key that counts how many processes are making the value of key.
func runningKey(key string) string { return "running:" + key }

// run is the function that makes a value. It counts in Redis how many runs there are at the same
// time.
func (c *child) run(ctx context.Context, o order) (string, error) {
	now, err := c.raw.Incr(context.Background(), runningKey(o.Key)).Result()
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	c.t.Runs++
	first := c.t.Runs == 1
	c.t.Peak = max(c.t.Peak, now)
	c.mu.Unlock()
	if first {
		if err := c.say(tally{Begun: true}); err != nil {
			return "", err
		}
	}
	select {
	case <-time.After(o.Takes):
	case <-ctx.Done():
	}
	err = c.raw.Decr(context.Background(), runningKey(o.Key)).Err()
	if o.Fails {
		err = errors.Join(err, errFails)
	}
	return fmt.Sprint(os.Getpid(), " ", time.Now().UnixNano()), errors.Join(ctx.Err(), err)
}

var errFails = errors.New("as the trial wants it")

// madeAt returns when a value was made. If that is later than the beginning of a call, the call
// waited for the value, or was delayed before it first looked.
func madeAt(value string) time.Time {
	var pid, at int64
	if n, _ := fmt.Sscan(value, &pid, &at); n != 2 {
		return time.Time{} // the function has returned an error instead of a value
	}
	return time.Unix(0, at)
}
