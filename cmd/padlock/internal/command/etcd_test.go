package command

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestEtcd runs the scripts of testdata/etcd with PADLOCK_STORE on a server.
func TestEtcd(t *testing.T) {
	server.Thorough(t) // a server for nothing but a script of the second tier
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	addr := server.Etcd(t, server.EtcdOptions{}).Addr()
	p := scripts("testdata/etcd")
	p.Setup = func(env *testscript.Env) error {
		err := setUpScript(env)
		env.Setenv("PADLOCK_STORE", "etcd://"+addr+"/"+filepath.Base(env.WorkDir)+"/") // each script has names of its own
		return err
	}
	testscript.Run(t, p)
}
