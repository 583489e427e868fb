package soak

import (
	"bufio"
	"encoding/gob"
	"encoding/json"
	"net"
	"sync"
)

// The engine gives the process of a worker its instructions as JSON in the environment. After that,
// the two processes exchange calls and replies over a socket, in gob.
// Workers in other languages use JSON, whose first byte is that of an object.
// Workers of an older build use the same format. So fields may be added but never renamed or
// removed. The zero value of a new field must mean the behaviour from before the field existed.
// TestWire checks this.

// A call is a request from a worker's process to the Monitor. The Monitor sends a reply, unless Do
// is "log".
type call struct {
	Do    string
	Event Event
	Name  string
	Fence uint64
	Write Write
	Key   Key
}

type reply struct {
	Value Value
	Key   Key
	OK    bool
}

// serve handles the calls of one connection until the connection ends.
func (c *Monitor) serve(conn net.Conn) {
	defer conn.Close()
	from := bufio.NewReader(conn)
	decode, encode := gob.NewDecoder(from).Decode, gob.NewEncoder(conn).Encode
	if first, err := from.Peek(1); err == nil && first[0] == '{' {
		decode, encode = json.NewDecoder(from).Decode, json.NewEncoder(conn).Encode
	}
	for {
		var q call
		if decode(&q) != nil {
			return // the worker has ended or was killed
		}
		var r reply
		switch q.Do {
		case "log":
			c.Log(q.Event)
			continue
		case "read":
			r.Value = c.Read(q.Name, q.Fence)
		case "write":
			c.Write(q.Write)
		case "offer":
			c.Offer(q.Key)
		case "take":
			r.Key, r.OK = c.Take()
		case "over":
			r.OK = c.Over()
		case "resting":
			r.OK = c.Resting()
		}
		if encode(&r) != nil {
			return
		}
	}
}

// link is a connection to the Monitor of another process. It implements monitorAPI.
type link struct {
	mu   sync.Mutex
	conn net.Conn
	in   *gob.Decoder
	out  *gob.Encoder
}

func dial(socket string) (*link, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn, in: gob.NewDecoder(conn), out: gob.NewEncoder(conn)}, nil
}

// askMonitor calls the Monitor. If the engine is gone, this process is no longer needed, so
// askMonitor ends the process.
func (l *link) askMonitor(q call) (r reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.out.Encode(&q)
	if err == nil && q.Do != "log" {
		err = l.in.Decode(&r)
	}
	if err != nil {
		exit(3)
	}
	return r
}

func (l *link) Log(e Event) { l.askMonitor(call{Do: "log", Event: e}) }
func (l *link) Read(name string, fence uint64) Value {
	return l.askMonitor(call{Do: "read", Name: name, Fence: fence}).Value
}
func (l *link) Write(w Write) { l.askMonitor(call{Do: "write", Write: w}) }
func (l *link) Offer(k Key)   { l.askMonitor(call{Do: "offer", Key: k}) }
func (l *link) Over() bool    { return l.askMonitor(call{Do: "over"}).OK }
func (l *link) Resting() bool { return l.askMonitor(call{Do: "resting"}).OK }

func (l *link) Take() (Key, bool) {
	r := l.askMonitor(call{Do: "take"})
	return r.Key, r.OK
}
