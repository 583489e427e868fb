package command

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestRedis runs the scripts of testdata/redis with PADLOCK_STORE on a server.
func TestRedis(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	url := server.Redis(t, server.RedisOptions{}).URL()
	p := scripts("testdata/redis")
	p.Setup = func(env *testscript.Env) error {
		err := setUpScript(env)
		env.Setenv("PADLOCK_STORE", url+"?max-ttl=5m&prefix="+filepath.Base(env.WorkDir)+":") // each script has names of its own
		return err
	}
	testscript.Run(t, p)
}

// TestSQL runs the scripts of testdata/sql with PADLOCK_STORE on a database. Only padlock is in PATH.
func TestSQL(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	for name, url := range map[string]string{
		"postgres": server.Postgres(t, server.PostgresOptions{}).URL(),
		"mariadb":  "mysql://root@" + server.MariaDB(t).Addr() + "/mysql",
	} {
		t.Run(name, func(t *testing.T) {
			p := scripts("testdata/sql")
			p.Setup = func(env *testscript.Env) error {
				err := setUpScript(env)
				env.Setenv("PADLOCK_STORE", url)
				env.Setenv("ADVISORY", strings.Replace(url, "://", "+advisory://", 1))
				return err
			}
			testscript.Run(t, p)
		})
	}
}

// scripts returns how the scripts of dir are run.
func scripts(dir string) testscript.Params {
	// Under nohup this process ignores hangups, and so would all its children. A process that
	// catches them leaves the default to its children.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	return testscript.Params{
		Dir:                 dir,
		Setup:               setUpScript,
		Deadline:            time.Now().Add(15 * time.Minute), // a script that hangs is a failure
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      exits,
			"waitfor":    waitFor,
			"eventually": eventually,
			"signal":     sendSignal,
			"dead":       dead,
			"fronts":     fronts,
		},
	}
}
