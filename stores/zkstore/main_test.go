package zkstore_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/internal/server"
	"github.com/padlock-go/padlock/stores/zkstore"
)

// The environment variables of a child process that takes part in a test.
const (
	childAddr = "PADLOCK_TEST_ADDR"
	childMode = "PADLOCK_TEST_MODE" // hold or wait
	childName = "PADLOCK_TEST_NAME"
)

// childSession is the session timeout of a child. It is long enough for a busy machine, since a
// test that stops or kills a child relies on the session until then.
const childSession = 8 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(childMode) != "" {
		child()
	}
	os.Exit(m.Run())
}

// child takes a name or waits for it, and prints the result. When its hold is lost, it prints that
// too.
func child() {
	ctx := context.Background()
	s, err := openStore(ctx, os.Getenv(childAddr), zkstore.SessionTimeout(childSession))
	var g driver.Grant
	if r := request(os.Getenv(childName)); err == nil && os.Getenv(childMode) == "hold" {
		g, err = s.Acquire(ctx, r)
		for errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrUncertain) { // the machine may be busy
			g, err = s.Acquire(ctx, r)
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready")
	if os.Getenv(childMode) == "wait" {
		g, err = s.(driver.Waiter).Wait(ctx, request(os.Getenv(childName)), true)
		fmt.Println("waited", err)
	}
	if g.Bound != nil {
		<-g.Bound.Done()
		fmt.Println("lost")
	}
	select {}
}

// startChild starts a child process and returns when it is ready.
func startChild(t *testing.T, mode, addr, name string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMode+"="+mode, childAddr+"="+addr, childName+"="+name)
	out, in := io.Pipe()
	cmd.Stdout = in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		out.Close()
		cmd.Wait()
	})
	lines := bufio.NewReader(out)
	expectLine(t, lines, "ready")
	return cmd, lines
}

// expectLine checks the next line that a child prints.
func expectLine(t *testing.T, lines *bufio.Reader, want string) {
	t.Helper()
	if line, err := lines.ReadString('\n'); line != want+"\n" {
		t.Fatalf("the child says %q, %v; want %q", line, err, want)
	}
}

// Most tests share a server, since each server is a Java process.
func TestOneServer(t *testing.T) {
	t.Parallel()
	srv := server.ZooKeeper(t, server.ZooKeeperOptions{Tick: quick})
	// One test has a store with a user, which would own the root if it made it.
	if _, err := rawConn(t, srv.Addr()).Create("/padlock", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*testing.T, *server.Server){
		"Contract":                     contract,
		"ContractWithoutFences":        contractWithoutFences,
		"ContractInSymfonysLayout":     contractInSymfonysLayout,
		"OtherPrograms":                otherPrograms,
		"NodesOfOthers":                nodesOfOthers,
		"SymfonysNodes":                symfonysNodes,
		"SymfonysNextHolder":           symfonysNextHolder,
		"LostBeforeTheNextGrant":       lostBeforeTheNextGrant,
		"HolderKilledAndStopped":       holderKilledAndStopped,
		"WaiterStopped":                waiterStopped,
		"HandOverWithoutList":          handOverWithoutList,
		"HolderChanges":                holderChanges,
		"NodeBeforeIsGone":             nodeBeforeIsGone,
		"OlderHolder":                  olderHolder,
		"RaisedBeforeTheWatch":         raisedBeforeTheWatch,
		"RepliesLostAtEachStep":        repliesLostAtEachStep,
		"CancelledCalls":               cancelledCalls,
		"BreakIsNoticed":               breakIsNoticed,
		"FencesAfterTheNodeWasDeleted": fencesAfterTheNodeWasDeleted,
		"NodesBelongToTheirUser":       nodesBelongToTheirUser,
		"CloseWhileCutOff":             closeWhileCutOff,
		"LeftOfFreeNames":              leftOfFreeNames,
		"URL":                          urlOpens,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, srv)
		})
	}
}
