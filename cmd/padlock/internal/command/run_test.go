package command

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestRunOnServer runs the scripts of testdata/runredis, each with its own Redis server. The
// command "server pause", "resume", "kill" or "restart" cuts the server off, brings it back, kills
// it, or restarts it with its data; in scripts whose names begin with "forgets-", a restart loses
// all data.
func TestRunOnServer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes that leave the process group are found on Linux only")
	}
	files, err := filepath.Glob("testdata/runredis/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			s := server.Redis(t, server.RedisOptions{Persist: !strings.HasPrefix(filepath.Base(file), "forgets-")})
			p := scripts("")
			p.Dir, p.Files = "", []string{file}
			p.Setup = func(env *testscript.Env) error {
				err := setUpScript(env)
				env.Setenv("PADLOCK_STORE", s.URL())
				return err
			}
			p.Cmds["server"] = func(ts *testscript.TestScript, neg bool, args []string) { control(ts, s, args) }
			testscript.Run(t, p)
		})
	}
}

func control(ts *testscript.TestScript, s *server.Server, args []string) {
	switch strings.Join(args, " ") {
	case "pause":
		s.Pause()
	case "resume":
		s.Resume()
	case "kill":
		s.Kill()
	case "restart":
		s.Restart(true)
	default:
		ts.Fatalf("usage: server pause|resume|kill|restart")
	}
}

// TestDisk runs the scripts of testdata/disk in a file system of their own, which can be full or
// read-only. It is mounted in a name space of the kernel, where any user may mount.
func TestDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has mount name spaces")
	}
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("unshare: %v\n%s", err, out)
		}
		t.Skipf("this user may not mount anything here: %v", err)
	}
	testscript.Run(t, scripts("testdata/disk"))
}

// The second process of a run does its work before the clients of the stores are initialised.
func TestSupervisorStartsEarly(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the supervisor is part of the first process there")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "supervise", "nothing")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1", "PADLOCK_SUPERVISE=9999") // this descriptor is not open, so it ends at once
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "init os/signal ") {
		t.Fatalf("%v: %s", err, out)
	}
	for _, late := range []string{"net", "net/http", "github.com/redis/rueidis", "google.golang.org/grpc"} {
		if strings.Contains(string(out), "init "+late+" ") {
			t.Errorf("%s is initialised before the supervisor runs; does one of its packages import something that is initialised late?", late)
		}
	}
	if n := strings.Count(string(out), "\ninit "); n > 90 {
		t.Errorf("%d packages are initialised before the supervisor runs: %s", n, out)
	}
}
