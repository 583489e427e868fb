package command

import (
	"encoding/json"
	"errors"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
)

// Another user can take the address of a keeper that has ended. His answers count for nothing, and
// he does not get the token.
func TestFalseKeeper(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("keepers need abstract sockets")
	}
	const token = keeperToken + "of-a-test"
	at, err := net.Listen("unix", socketOf(token))
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	asked := make(chan string, 1)
	go func() {
		conn, err := at.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		var k map[string]any
		_ = json.NewDecoder(conn).Decode(&k)
		text, _ := json.Marshal(k)
		asked <- string(text)
		k["Left"] = time.Hour
		_ = json.NewEncoder(conn).Encode(k)
	}()
	key, err := padlock.KeyFor("deploy", token, padlock.ModeExclusive)
	if err != nil {
		t.Fatal(err)
	}
	_, err = new(app).askKeeper(key, "extended", keeping{Extend: time.Hour})
	var why *failure
	if !errors.As(err, &why) || why.status != exitLost {
		t.Errorf("a false keeper: %v", err)
	}
	if text := <-asked; strings.Contains(text, token) {
		t.Errorf("the request shows the token: %s", text)
	}
}
