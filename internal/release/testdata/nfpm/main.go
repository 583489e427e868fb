// Command nfpm makes packages of Debian and Red Hat. It is a module of its own, outside of the
// workspace, because it compiles a client of git and of OpenPGP, which takes longer than all tests
// of package release; make release builds it.
//
//	nfpm CONFIG PACKAGE.deb PACKAGE.rpm
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "nfpm CONFIG PACKAGE.deb PACKAGE.rpm")
		os.Exit(64)
	}
	for _, target := range os.Args[2:] {
		if err := write(os.Args[1], target); err != nil {
			fmt.Fprintf(os.Stderr, "nfpm: %s: %v\n", target, err)
			os.Exit(1)
		}
	}
}

// write makes one package. The end of its name says of which kind it is.
func write(config, target string) error {
	src, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	c, err := nfpm.Parse(strings.NewReader(os.ExpandEnv(string(src)))) // nfpm itself expands some fields only
	if err != nil {
		return err
	}
	kind := strings.TrimPrefix(filepath.Ext(target), ".")
	packager, err := nfpm.Get(kind)
	if err != nil {
		return err
	}
	info, err := c.Get(kind)
	if err != nil {
		return err
	}
	if err := nfpm.Validate(info); err != nil {
		return err
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	if err := packager.Package(nfpm.WithDefaults(info), f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
