package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"syscall"
	"testing"
	"time"
)

func messages() (orders []*order, reports []*news) {
	spec := Spec{
		Path: "/bin/a b", Args: []string{"", "\xff\n"}, Env: []string{"A=1"}, Leave: true, Signal: syscall.SIGTERM,
		Grace: -time.Second, Lease: func() time.Duration { return time.Hour },
	}
	forever := Spec{Path: "x", Lease: func() time.Duration { return Forever }}
	return []*order{
			{}, {Do: doStart, Job: newJobSpec(&spec)}, {Do: doStart, Job: newJobSpec(&forever)},
			{Do: doLease, Lease: momentAfter(-time.Hour), Answer: true}, {Do: doSignal, Signal: 15, Grace: time.Hour},
		}, []*news{
			{}, {Is: isLeft, Left: []Leftover{{7, "sleep"}, {8, "?"}}}, {Is: isDone, PID: 1, Errno: 2, Code: 255, Signal: 9},
		}
}

// A message arrives as it was sent, and several arrive one after the other. A message without its
// end is an error: it could be another order.
func TestMessages(t *testing.T) {
	orders, reports := messages()
	for _, o := range orders {
		check(t, o, orders[1])
	}
	for _, n := range reports {
		check(t, n, reports[1])
	}
}

// check sends a message and the next one.
func check[T any](t *testing.T, sent, next *T) {
	t.Helper()
	var wire bytes.Buffer
	out := json.NewEncoder(&wire)
	if err := errors.Join(out.Encode(sent), out.Encode(next)); err != nil {
		t.Fatal(err)
	}
	text := wire.Bytes()
	in := json.NewDecoder(&wire)
	for _, want := range []*T{sent, next} {
		if got := new(T); in.Decode(got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if err := in.Decode(new(T)); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
	for end := range bytes.IndexByte(text, '\n') {
		if err := json.NewDecoder(bytes.NewReader(text[:end])).Decode(new(T)); err == nil {
			t.Errorf("the first %d bytes of %s are a message", end, text)
		}
	}
}
