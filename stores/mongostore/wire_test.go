package mongostore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/stores/mongostore"
)

// A script stands in for a server that has a fault at a chosen moment. No real server can be made
// to have these faults. A script carries out no request, so it shows how the store reads a reply,
// and nothing about MongoDB.
type script struct {
	// reply returns the reply to a command of the store. nil closes the connection. A reply with
	// the field silence is not sent.
	reply func(command bson.Raw) bson.D

	starting atomic.Bool // the next command is the one of serve

	mu   sync.Mutex
	sent []bson.Raw // the commands of the store
}

// serve opens a store on the script. A first command, which is not among those of the script, finds
// the server: the client looks for a server for a limited time, and the machine may be slow.
func (s *script) serve(t *testing.T, opts ...mongostore.Option) *mongostore.Store {
	t.Helper()
	store, err := mongostore.Open(t.Context(), s.listen(t), append(opts, mongostore.Lazy())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s.starting.Store(true)
	for s.starting.Load() && t.Context().Err() == nil {
		_, err = store.Inspect(t.Context(), "first")
	}
	if t.Context().Err() != nil {
		t.Fatal(err)
	}
	return store
}

// open opens a store that sends requests when it is opened. If it has not found the script in time,
// it tries again.
func (s *script) open(t *testing.T, opts ...mongostore.Option) (store *mongostore.Store, err error) {
	t.Helper()
	c := s.listen(t)
	for range 10 {
		store, err = mongostore.Open(t.Context(), c, opts...)
		if !errors.Is(err, driver.ErrUnavailable) || s.count() > 0 {
			break
		}
	}
	return store, err
}

// listen returns the settings of a store on the script.
func (s *script) listen(t *testing.T) mongostore.Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				for s.answer(conn) == nil {
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return mongostore.Config{URI: "mongodb://" + l.Addr().String() + "/", Database: "shop", Collection: "padlock"}
}

// count returns how many commands have arrived.
func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

var hello = bson.D{
	{Key: "ok", Value: 1}, {Key: "isWritablePrimary", Value: true}, {Key: "ismaster", Value: true}, {Key: "helloOk", Value: true},
	{Key: "maxBsonObjectSize", Value: 1 << 24}, {Key: "maxMessageSizeBytes", Value: 48000000},
	{Key: "maxWriteBatchSize", Value: 100000}, {Key: "minWireVersion", Value: 0}, {Key: "maxWireVersion", Value: 21},
}

var errSilent = errors.New("the script ends the connection")

// answer reads one request and writes its reply.
func (s *script) answer(conn net.Conn) error {
	head := make([]byte, 16)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	body := make([]byte, int(binary.LittleEndian.Uint32(head))-len(head))
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	id := binary.LittleEndian.Uint32(head[4:])
	const query, msg, legacyReply = 2004, 2013, 1
	if binary.LittleEndian.Uint32(head[12:]) == query { // the first hello
		return write(conn, id, legacyReply, make([]byte, 16), []byte{1, 0, 0, 0}, hello)
	}
	command, err := join(body)
	if err != nil {
		return err
	}
	first, _ := command.IndexErr(0)
	reply := hello
	switch key := first.Key(); {
	case slices.Contains([]string{"hello", "ismaster", "isMaster", "endSessions", "ping"}, key):
	case s.starting.CompareAndSwap(true, false):
		reply = refusal(14031)
	default:
		s.mu.Lock()
		s.sent = append(s.sent, command)
		s.mu.Unlock()
		reply = s.reply(command)
	}
	switch {
	case reply == nil:
		return errSilent
	case len(reply) > 0 && reply[0].Key == "silence":
		return nil
	}
	return write(conn, id, msg, make([]byte, 5), nil, reply)
}

// join returns the command of a message. The client sends the updates and deletions of a command in
// a section of their own.
func join(body []byte) (bson.Raw, error) {
	first := body[5 : 5+binary.LittleEndian.Uint32(body[5:])]
	var command bson.D
	if err := bson.Unmarshal(first, &command); err != nil {
		return nil, err
	}
	if rest := body[5+len(first):]; len(rest) > 0 {
		name, docs, _ := bytes.Cut(rest[5:], []byte{0})
		all := bson.A{}
		for len(docs) > 0 {
			n := binary.LittleEndian.Uint32(docs)
			all = append(all, bson.Raw(docs[:n]))
			docs = docs[n:]
		}
		command = append(command, bson.E{Key: string(name), Value: all})
	}
	return bson.Marshal(command)
}

func write(conn net.Conn, to, opcode uint32, start, more []byte, reply bson.D) error {
	doc, err := bson.Marshal(reply)
	if err != nil {
		return err
	}
	body := append(append(start, more...), doc...)
	head := binary.LittleEndian.AppendUint32(nil, uint32(16+len(body)))
	head = binary.LittleEndian.AppendUint32(head, 1)
	head = binary.LittleEndian.AppendUint32(head, to)
	head = binary.LittleEndian.AppendUint32(head, opcode)
	_, err = conn.Write(append(head, body...))
	return err
}

// always replies to every command in the same way.
func always(reply bson.D) func(bson.Raw) bson.D { return func(bson.Raw) bson.D { return reply } }

func ok(pairs ...any) bson.D {
	d := bson.D{{Key: "ok", Value: 1}}
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

func refusal(code int) bson.D {
	return bson.D{{Key: "ok", Value: 0}, {Key: "code", Value: code}, {Key: "errmsg", Value: "no"}}
}
