// Package command is the command line of padlock and of padlock-all.
package command

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/padlock-go/padlock/open"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/httpstore"
	"github.com/padlock-go/padlock/stores/memcachestore"
	"github.com/padlock-go/padlock/stores/pgadvisory"
	"github.com/padlock-go/padlock/stores/redisstore"
	"github.com/padlock-go/padlock/stores/semstore"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/mysql"
	"github.com/padlock-go/padlock/stores/sqlstore/drivers/postgres"

	_ "github.com/padlock-go/padlock/cmd/padlock/internal/supervise/early"
)

// The two programs.
const (
	smallName = "padlock"
	allName   = "padlock-all"
)

var (
	// programName is the name of this program: smallName or allName.
	programName = smallName
	// schemes are the kinds of stores that this program has.
	schemes = open.Schemes(smallSchemes()...)
	// runServe runs padlock serve. It is nil in padlock: the pages are templates, with which the
	// linker would keep every method of every client, and double the program.
	runServe func(*app, context.Context, *serving) error
)

// smallSchemes are the stores of padlock, in addition to those that package open always has.
func smallSchemes() []storeurl.Scheme {
	return []storeurl.Scheme{
		redisstore.Scheme(), postgres.Scheme(), pgadvisory.Scheme(), mysql.Scheme(), mysql.AdvisoryScheme(),
		semstore.Scheme(), memcachestore.Scheme(), httpstore.Scheme(),
	}
}

// Main runs padlock and exits. version is that of a release build, or "".
func Main(version string) {
	release = version
	misnamed := programName == smallName && strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe") == allName
	os.Exit((&app{stdout: os.Stdout, stderr: os.Stderr, misnamed: misnamed}).execute(os.Args[1:]))
}

// MainOfAll runs padlock-all, which has every store, and exits.
func MainOfAll(version string, stores []storeurl.Scheme) {
	programName, schemes, runServe = allName, open.Schemes(stores...), (*app).serve
	Main(version)
}
