package symfony

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/padlock-go/padlock/driver"
)

// killedHolder: a process that holds a name is killed, and its lease ends.
func killedHolder(t *testing.T, d database) {
	s := d.must(t, "symfony73", "killed")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOCKKEYS_HOLDER="+d.opener.Engine.String()+" "+d.rawURL)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it has the lock
		t.Fatal(err)
	}
	refused(t, s, "job")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	// The lease would last for a minute.
	if _, err := d.raw(t).Exec(d.sql("UPDATE killed SET key_expiration = {now} + 2")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), driver.Request{Name: "job", Token: driver.TokenOf(newToken()), TTL: time.Second}, true); err != nil {
		t.Fatal(err)
	}
	hold(t, s, "job")
}

// TestMain runs the process that killedHolder kills, if the environment asks for it.
func TestMain(m *testing.M) {
	engine, rawURL, ok := strings.Cut(os.Getenv("LOCKKEYS_HOLDER"), " ")
	if !ok {
		os.Exit(m.Run())
	}
	for _, o := range openers {
		if o.Engine.String() == engine {
			holdForever(database{rawURL: rawURL, opener: o})
		}
	}
	os.Exit(1)
}

// holdForever takes a name, says so on its standard output, and waits to be killed.
func holdForever(d database) {
	ctx := context.Background()
	s, err := d.open(ctx, "symfony73", "killed")
	if err == nil {
		_, err = s.Acquire(ctx, driver.Request{Name: "job", Token: driver.TokenOf(newToken()), TTL: time.Minute})
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("x")
	select {}
}
