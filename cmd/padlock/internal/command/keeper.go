package command

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
)

// A keeper is a small process that acquire --keeper starts. It holds the lock as padlock run does,
// so every program sees the lock. The keeper releases the lock when the time of --ttl is over.
//
// padlock extend and padlock release talk to the keeper through a socket in Linux's abstract
// namespace. The name of the socket is a hash of the token in the key, so a list of the sockets
// does not show the token. When the keeper has ended, any user can open a socket with the same
// name. So both sides prove that they know the token, without sending it.
//
// padlock acquire and the keeper talk over the keeper's standard input and output:
//
//	acquire → keeper   keepOrder   which lock the keeper must take
//	keeper → acquire   keepReply   the key, or the failure
//	acquire → keeper   "kept"      acquire has written the key
//
// If acquire ends while the keeper waits for the lock, the keeper gives up. If acquire ends without
// "kept", the keeper releases the lock. A signal ends the keeper at any time: it then gives up the
// wait or releases the lock.

// keeperVerb is the verb with which acquire starts a keeper.
const keeperVerb = "keeper"

// keeperSystem is the operating system on which keepers work.
const keeperSystem = "linux"

// keeperToken is the prefix of the token of every lock that a keeper holds. The token is part of
// the lock's key.
const keeperToken = "padlock-keeper:"

// hasKeeper reports whether the key belongs to a lock that a keeper holds.
func hasKeeper(key padlock.Key) bool { return strings.HasPrefix(key.Token(), keeperToken) }

// keepOrder is the message in which padlock acquire tells a keeper which lock to take.
type keepOrder struct {
	Name, Label      []byte // a string in JSON would lose bytes that are not UTF-8
	Shared, Nonblock bool
	Wait, TTL, Least time.Duration
	WaitGiven        bool
	Conflict         exitStatus
	StoreURL         string `json:"-"`
}

// keepReply is the answer to a keepOrder.
type keepReply struct {
	Status  int // the exit status that the failure has, or 0 if the lock was taken
	Note    note
	Token   string
	Fence   uint64
	Seconds float64
}

// keeping is a message between a keeper and padlock extend or padlock release. Requests and answers
// have the same type.
type keeping struct {
	Nonce    string        // chosen for each request
	Proof    string        // proves that the sender knows the token; see proofOf
	Extend   time.Duration // 0: release
	CoolDown time.Duration
	Lost     bool   // answer: the keeper had already lost the lock
	Problem  string // answer: why the request was refused
	Unknown  string // answer: why it is not known whether the keeper still has the lock
	Left     time.Duration
}

// socketOf is the address of the keeper that holds the lock of a token.
func socketOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "@padlock-keeper-" + hex.EncodeToString(sum[:20])
}

// The senders of a message, for proofOf.
const (
	asking    = "ask"    // padlock extend or padlock release
	answering = "answer" // the keeper
)

// proofOf returns a proof that the sender of a message knows the token. The sender is asking or
// answering.
func proofOf(token, sender, nonce string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte(sender + ":" + nonce))
	return hex.EncodeToString(mac.Sum(nil))
}

func (a *app) keeperCommand() *cobra.Command {
	return &cobra.Command{
		Use:    keeperVerb,
		Short:  "Hold a lock for padlock acquire --keeper, which starts this",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			in := bufio.NewReader(os.Stdin)
			line, err := in.ReadString('\n')
			var order keepOrder
			if err != nil || json.Unmarshal([]byte(line), &order) != nil {
				return usage("%s is started by padlock acquire --keeper only", keeperVerb)
			}
			return a.holdForCaller(c.Context(), &order, in)
		},
	}
}

// holdForCaller is the keeper: it takes the lock, reports the key, and holds the lock until the
// time is over or the lock is released.
func (a *app) holdForCaller(from context.Context, order *keepOrder, in *bufio.Reader) error {
	ended, stop := interruptible(from)
	defer stop()
	ctx, cancel := context.WithCancel(ended)
	defer cancel()
	kept := make(chan bool, 1)
	go func() {
		line, _ := in.ReadString('\n')
		kept <- line == "kept\n"
		cancel() // "padlock acquire" has ended
	}()
	name := string(order.Name)
	l, err := a.locker(ctx, name)
	var lock *padlock.Lock
	if err == nil {
		defer a.close(l)
		set := order.taking()
		if lock, err = l.Acquire(ctx, name, set.options()...); err != nil {
			err = a.notTaken(set, name, err)
		}
	}
	var socket net.Listener
	token := keeperToken + rand.Text()
	if err == nil {
		defer lock.Release()
		if socket, err = net.Listen("unix", socketOf(token)); err != nil {
			err = fail(exitSystem, "system", name, "no socket for the keeper: %s", err)
		} else {
			defer socket.Close() // before the lock is released, so that nobody takes this process for the keeper of a later lock
		}
	}
	if ended.Err() != nil {
		err = interruptedBy(stop(), name)
	}
	ttl := max(order.TTL, order.Least)
	reply := keepReply{Token: token, Seconds: ttl.Seconds()}
	var why *failure
	if errors.As(err, &why) {
		reply = keepReply{Status: why.status, Note: why.note}
	} else {
		reply.Fence = lock.Fence()
	}
	if err := a.print(a.stdout, reply); err != nil || why != nil {
		return nil
	}
	select {
	case written := <-kept:
		if written {
			_ = os.Stdout.Close()
			serveKeeper(lock, l.Guarantees(), token, ttl, socket, ended.Done())
		}
	case <-ended.Done():
	}
	return nil
}

// serveKeeper answers requests until the lock has ended or was released.
func serveKeeper(lock *padlock.Lock, g padlock.Guarantees, token string, ttl time.Duration, socket net.Listener, ended <-chan struct{}) {
	type asked struct {
		conn net.Conn
		keeping
	}
	requests := make(chan asked)
	go func() {
		for {
			conn, err := socket.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // for example, too many files are open
				time.Sleep(acceptPause)
				continue
			}
			go func() {
				_ = conn.SetDeadline(time.Now().Add(keeperPatience))
				var k keeping
				if json.NewDecoder(io.LimitReader(conn, keepingSize)).Decode(&k) != nil || !hmac.Equal([]byte(k.Proof), []byte(proofOf(token, asking, k.Nonce))) {
					_ = conn.Close()
					return
				}
				requests <- asked{conn, k}
			}()
		}
	}()
	end := time.Now().Add(ttl)
	over := time.NewTimer(ttl)
	for {
		select {
		case <-over.C:
			return
		case <-ended:
			return
		case <-lock.Context().Done():
			return
		case r := <-requests:
			answer, done := keeping{Proof: proofOf(token, answering, r.Nonce)}, false
			if r.Extend > 0 {
				if later := time.Now().Add(r.Extend); later.After(end) {
					end = later
					over.Reset(r.Extend)
				}
				answer.Left = time.Until(end)
				answer.judge(lock.Check(lock.Context()))
			} else if err := driver.CheckKeep("CoolDown", r.CoolDown, &g); err != nil {
				answer.Problem = reason(err)
			} else {
				done = true
				answer.judge(lock.Release(padlock.CoolDown(r.CoolDown)))
			}
			_ = json.NewEncoder(r.conn).Encode(answer)
			_ = r.conn.Close()
			if done {
				return
			}
		}
	}
}

// judge records what the error of a Check or a Release says about the lock.
func (k *keeping) judge(err error) {
	switch {
	case err == nil:
	case errors.Is(err, padlock.ErrLost), errors.Is(err, padlock.ErrExpired), errors.Is(err, padlock.ErrReleased):
		k.Lost = true
	default:
		k.Unknown = reason(err)
	}
}

// acceptPause is the pause after a connection that could not be accepted.
const acceptPause = 50 * time.Millisecond

// keepingSize bounds the bytes of a request and of an answer. Every user of the machine can connect
// to a keeper, and must not be able to fill its memory.
const keepingSize = 4096

// keeperPatience is the time limit for a request to a keeper and its answer.
const keeperPatience = 10 * time.Second

// askKeeper sends a request to the keeper that holds the lock of the key. If the keeper has ended,
// the lock is lost.
func (a *app) askKeeper(key padlock.Key, deed string, k keeping) (keeping, error) {
	ended := fail(exitLost, "lost", key.Name(), "%s was not %s: the process that kept the lock has ended, and somebody else may have it", show(key.Name()), deed)
	conn, err := net.Dial("unix", socketOf(key.Token()))
	if err != nil {
		return k, ended
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(keeperPatience))
	k.Nonce = rand.Text()
	k.Proof = proofOf(key.Token(), asking, k.Nonce)
	var answer keeping
	if err = json.NewEncoder(conn).Encode(k); err == nil {
		err = json.NewDecoder(io.LimitReader(conn, keepingSize)).Decode(&answer)
	}
	if err != nil && keeperGone(key) {
		return answer, ended // the keeper ended before it had answered
	}
	switch {
	case err != nil:
		return answer, fail(exitUnavailable, "uncertain", key.Name(), "the process that keeps %s did not answer; try again", show(key.Name()))
	case !hmac.Equal([]byte(answer.Proof), []byte(proofOf(key.Token(), answering, k.Nonce))):
		return answer, ended // another process has the address of the keeper
	case answer.Problem != "":
		return answer, fail(exitUsage, "unsupported", key.Name(), "%s was not %s: %s", show(key.Name()), deed, answer.Problem)
	case answer.Lost:
		return answer, a.unsuccessful(key.Name(), deed, padlock.ErrLost)
	case answer.Unknown != "" && k.Extend == 0:
		return answer, fail(exitUnavailable, "uncertain", key.Name(), "it is unknown whether %s was still locked when it was released: %s; the process that kept it has ended, and the lock ends with it", show(key.Name()), answer.Unknown)
	case answer.Unknown != "":
		return answer, fail(exitUnavailable, "uncertain", key.Name(), "it is unknown whether %s was %s: %s; try again", show(key.Name()), deed, answer.Unknown)
	}
	return answer, nil
}

// keeperGone reports whether the process that keeps the lock has ended.
func keeperGone(key padlock.Key) bool {
	conn, err := net.Dial("unix", socketOf(key.Token()))
	if err != nil {
		return true
	}
	_ = conn.Close()
	return false
}

// taking returns the flags of the "padlock acquire" that started the keeper.
func (o *keepOrder) taking() *taking {
	set := &taking{shared: o.Shared, nonblock: o.Nonblock, conflict: o.Conflict, label: string(o.Label), keeper: true}
	set.wait, set.atLeast = seconds{d: o.Wait, given: o.WaitGiven}, seconds{d: o.Least}
	return set
}

// acquireKept is the command "padlock acquire --keeper".
func (a *app) acquireKept(ctx context.Context, set *taking, name string) error {
	l, err := a.locker(ctx, name)
	if err != nil {
		return err
	}
	bound := l.Guarantees().Bound
	a.close(l)
	switch {
	case bound == 0:
		return fail(exitUsage, "unsupported", name, "--keeper is for stores whose locks end with a process or a connection, and a key of %s needs no keeper", a.place())
	case runtime.GOOS != keeperSystem:
		return fail(exitUsage, "unsupported", name, "--keeper needs Linux")
	}
	if err := a.readAgain("the keeper", "write the URL to a file"); err != nil {
		return err
	}
	order := a.orderFor(set, name)
	if err := a.checkKept(name, order.TTL); err != nil {
		return err
	}
	place, err := newKeyPlace(set.keyFile)
	if err != nil {
		return err
	}
	defer place.drop()
	if place.tmp != nil {
		if err := a.keptStill(place.file); err != nil {
			return err
		}
	}
	k, err := startKeeper(order)
	if err != nil {
		return fail(exitSystem, "system", name, "the keeper cannot be started: %s", pathReason(err))
	}
	defer k.endKeeper()
	ctx, stop := interruptible(ctx)
	reply, err := k.answer(ctx)
	if s := stop(); s != nil {
		return interruptedBy(s, name)
	}
	switch {
	case err != nil:
		return fail(exitSystem, "system", name, "the keeper ended without an answer: %s", err)
	case reply.Status != 0:
		return &failure{reply.Status, reply.Note}
	}
	return a.tellKept(name, set, reply, place, k)
}

// orderFor returns the message that tells the keeper which lock to take. It contains the flags with
// which acquire was called.
func (a *app) orderFor(set *taking, name string) *keepOrder {
	o := &keepOrder{
		Name: []byte(name), Label: []byte(set.label), Shared: set.shared, Nonblock: set.nonblock, Wait: set.wait.d, WaitGiven: set.wait.given, TTL: padlock.DefaultTTL,
		Least: set.atLeast.d, Conflict: set.conflict, StoreURL: a.storeURL,
	}
	if set.ttl.given {
		o.TTL = set.ttl.d
	}
	return o
}

// checkKept returns an error if ttl is not a valid duration of a lock. A store usually checks this,
// but a keeper measures the time itself, without the store.
func (a *app) checkKept(name string, ttl time.Duration) error {
	if err := driver.CheckTTL("TTL", ttl, new(driver.Guarantees)); err != nil {
		return a.explain(name, err)
	}
	return nil
}

// tellKept gives the key to the user, and tells the keeper that it has done so.
func (a *app) tellKept(name string, set *taking, reply *keepReply, place *keyPlace, k *keeperProcess) error {
	mode := padlock.ModeExclusive
	if set.shared {
		mode = padlock.ModeShared
	}
	key, err := padlock.KeyFor(name, reply.Token, mode)
	var word []byte
	if err == nil {
		word, err = key.MarshalText()
	}
	if err == nil {
		left := time.Duration(reply.Seconds * float64(time.Second))
		err = a.tellKey(name, handedOver{
			named: newNamed(name), Key: string(word), Shared: set.shared, Fence: reply.Fence, Seconds: left.Seconds(),
			Until: time.Now().Add(left).UTC(), Keeper: k.cmd.Process.Pid,
		}, place)
	}
	if err != nil {
		return fail(exitOutput, "output", name, "the key of %s could not be written: %s; the lock was released", show(name), pathReason(err))
	}
	return k.leaveRunning()
}

// keptStill returns an error if the file contains the key of a lock that a keeper still holds.
func (a *app) keptStill(file string) error {
	key, ok := keyIn(file)
	if !ok || !hasKeeper(key) {
		return nil
	}
	answer, err := a.askKeeper(key, "extended", keeping{Extend: time.Nanosecond})
	if err != nil {
		return nil
	}
	return keyInUse(file, key, answer.Left)
}

// keeperProcess is a keeper that this process has started.
type keeperProcess struct {
	cmd *exec.Cmd
	in  interface{ Close() error }
	out *bufio.Reader
	say func(line string) error
	own bool // the keeper must end with this process
}

func startKeeper(order *keepOrder) (*keeperProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{keeperVerb}
	if order.StoreURL != "" {
		args = append(args, "--store", order.StoreURL)
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	cmd.SysProcAttr = ownSession()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	k := &keeperProcess{cmd: cmd, in: in, out: bufio.NewReader(out), own: true}
	k.say = func(line string) error { _, err := in.Write([]byte(line + "\n")); return err }
	text, err := json.Marshal(order)
	if err == nil {
		err = k.say(string(text))
	}
	if err != nil {
		k.endKeeper()
		return nil, err
	}
	return k, nil
}

// answer waits for the keeper's reply. If ctx ends first, the keeper gives up.
func (k *keeperProcess) answer(ctx context.Context) (*keepReply, error) {
	stop := context.AfterFunc(ctx, func() { k.in.Close() })
	defer stop()
	line, err := k.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	var reply keepReply
	return &reply, json.Unmarshal([]byte(line), &reply)
}

// leaveRunning lets the keeper go on without this process.
func (k *keeperProcess) leaveRunning() error {
	err := k.say("kept")
	k.own = err != nil
	return err
}

// endKeeper ends the keeper, except after leaveRunning.
func (k *keeperProcess) endKeeper() {
	_ = k.in.Close()
	if k.own {
		_ = k.cmd.Wait()
	}
}
