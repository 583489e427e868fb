package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestHTTPPage runs the scripts of testdata/api. They write blocks of docs/http-api.md to files of
// the same names with
//
//	block FILE…
//
// or take the clients in $CLIENTS, and run them against two servers of "padlock serve --api" on one
// Redis. $URL and $SECOND are their addresses, and first.pid and second.pid have their processes.
func TestHTTPPage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the blocks use a Unix shell")
	}
	text, err := os.ReadFile("../../../../docs/http-api.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := recipes(t, string(text))
	clients, err := filepath.Abs("../../../../clients")
	if err != nil {
		t.Fatal(err)
	}
	url := server.Redis(t, server.RedisOptions{}).URL()
	p := scripts("testdata/api")
	p.Setup = func(env *testscript.Env) error {
		err := setUpScript(env)
		env.Setenv("CLIENTS", clients)
		env.Setenv("PADLOCK_STORE", url+"?prefix="+strings.ReplaceAll(env.WorkDir, "/", "-")+":")
		for variable, file := range map[string]string{"URL": "first.pid", "SECOND": "second.pid"} {
			if err == nil {
				err = serveScript(env, variable, env.WorkDir+"/"+file)
			}
		}
		return err
	}
	p.Cmds["block"] = func(ts *testscript.TestScript, neg bool, args []string) {
		for _, name := range args {
			if neg || blocks[name] == "" {
				ts.Fatalf("docs/http-api.md has no block %s", name)
			}
			here := strings.ReplaceAll(blocks[name], "http://127.0.0.1:7925", ts.Getenv("URL"))
			ts.Check(server.WriteProgram(ts.MkAbs(name), []byte(here)))
		}
	}
	testscript.Run(t, p)
	for name, block := range blocks {
		if strings.Contains(block, `-d "`) {
			t.Errorf("%s shows the token to all users of the machine, in the arguments of curl", name)
		}
		script, err := os.ReadFile("testdata/api/" + strings.TrimSuffix(name, ".sh") + ".txtar")
		if err != nil || !strings.Contains(string(script), "block "+name+"\n") {
			t.Errorf("no script runs %s: %v", name, err)
		}
	}
}

// serveScript starts "padlock serve --api" for a script, and stops it at the end of the script.
func serveScript(env *testscript.Env, variable, pidFile string) error {
	c := exec.Command(allName, "serve", "--json", "--api", "--listen", "127.0.0.1:0")
	c.Env = env.Vars
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	env.Defer(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	var at served
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		return err
	}
	env.Setenv(variable, strings.TrimSuffix(at.URL, "/"))
	return os.WriteFile(pidFile, []byte(strconv.Itoa(c.Process.Pid)), 0o600)
}
