package supervise

import (
	"bytes"
	"io"
	"reflect"
	"syscall"
	"testing"
	"time"
)

func messages() (orders []*order, reports []*news) {
	spec := Spec{
		Path: "/bin/a b", Args: []string{"", "\xff\n"}, Env: []string{"A=1"}, Pass: true, Leave: true, Signal: syscall.SIGTERM,
		Grace: -time.Second, Lease: time.Hour,
	}
	forever := Spec{Path: "x", Lease: Forever}
	return []*order{
			{}, {Do: doStart, Job: newJobSpec(&spec)}, {Do: doStart, Job: newJobSpec(&forever)},
			{Do: doLease, Lease: momentAfter(-time.Hour), Answer: true}, {Do: doSignal, Signal: 15, Grace: time.Hour},
		}, []*news{
			{}, {Is: isLeft, Left: []Leftover{{7, "sleep"}, {8, "?"}}}, {Is: isDone, PID: 1, Errno: 2, Code: 255, Signal: 9},
		}
}

// A message arrives as it was sent, and several arrive one after the other.
func TestMessages(t *testing.T) {
	orders, reports := messages()
	var wire bytes.Buffer
	for _, o := range orders {
		if err := writeMessage(&wire, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range reports {
		if err := writeMessage(&wire, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range orders {
		if got := new(order); readMessage(&wire, got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for _, want := range reports {
		if got := new(news); readMessage(&wire, got) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if err := readMessage(&wire, new(news)); err != io.EOF {
		t.Errorf("after the last message: %v", err)
	}
}

// A message that has lost bytes, or has more of them, is an error. An order without its end could
// be another order.
func TestDamagedMessages(t *testing.T) {
	orders, reports := messages()
	check := func(sent message, empty func() message) {
		w := &writer{}
		sent.fields(w)
		for end := range w.b {
			if err := (&reader{b: w.b[:end]}).message(empty()); err == nil {
				t.Errorf("%+v: the first %d of %d bytes are a message", sent, end, len(w.b))
			}
		}
		if err := (&reader{b: append(w.b, 0)}).message(empty()); err == nil {
			t.Errorf("%+v: a byte may follow", sent)
		}
	}
	for _, o := range orders {
		check(o, func() message { return new(order) })
	}
	for _, n := range reports {
		check(n, func() message { return new(news) })
	}
}

// Any bytes are an error, or a message that arrives again as it is.
func FuzzMessage(f *testing.F) {
	orders, reports := messages()
	for _, o := range orders {
		w := &writer{}
		o.fields(w)
		f.Add(w.b)
	}
	for _, n := range reports {
		w := &writer{}
		n.fields(w)
		f.Add(w.b)
	}
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, pair := range [][2]message{{new(order), new(order)}, {new(news), new(news)}} {
			if (&reader{b: data}).message(pair[0]) != nil {
				continue
			}
			w := &writer{}
			pair[0].fields(w)
			if err := (&reader{b: w.b}).message(pair[1]); err != nil || !reflect.DeepEqual(pair[0], pair[1]) {
				t.Errorf("%+v arrives as %+v, %v", pair[0], pair[1], err)
			}
		}
	})
}
