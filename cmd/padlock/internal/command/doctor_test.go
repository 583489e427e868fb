package command

import (
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/padlock-go/padlock/internal/server"
)

// TestDoctor runs the scripts of testdata/doctor. They start servers of their own with
//
//	redis VARIABLE [persist] [cluster] [tls] [password=TEXT] [acl=FILE] [ARGUMENT…]
//
// and find the URL in the variable.
func TestDoctor(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the scripts use a Unix shell")
	}
	p := scripts("testdata/doctor")
	p.Cmds["redis"] = func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) == 0 {
			ts.Fatalf("usage: redis VARIABLE [OPTION…]")
		}
		o := redisOptions(t, ts, args[1:])
		srv := server.Redis(t, o)
		u, err := url.Parse(srv.URL())
		ts.Check(err)
		if o.TLS != nil {
			ca := ts.MkAbs(args[0] + ".pem")
			ts.Check(os.WriteFile(ca, o.TLS.CA, 0o600))
			u.RawQuery = url.Values{"ca": {ca}}.Encode()
		}
		ts.Setenv(args[0], u.String())
		ts.Setenv(args[0]+"_PORT", u.Port())
	}
	testscript.Run(t, p)
}

func redisOptions(t *testing.T, ts *testscript.TestScript, args []string) (o server.RedisOptions) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "persist":
			o.Persist = true
		case "cluster":
			o.Cluster = true
		case "tls":
			o.TLS = server.NewTLS(t)
		case "password":
			o.Password = value
		case "acl":
			o.ACL = ts.ReadFile(value)
		default:
			o.Args = append(o.Args, arg)
		}
	}
	return o
}
