// Command release makes files of a release from the programs that .ci/dist has built: archives, an
// image, the list of linked modules, the licences, and the notes.
//
// The same input makes the same bytes: entries are sorted, and every time is that of the flag
// -time.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

const usage = `release makes files of a release; .ci/dist calls it.

  release archive  -time T -o FILE DIR                     DIR as .tar.gz or .zip
  release image    -time T -name NAME -version V -o FILE linux/amd64=DIR...
                                                           an OCI image, its root is DIR
  release licences -go DIR -o FILE PACKAGES...             the licences of "go list -deps -json"
  release sbom     -time T -name NAME -version V -o FILE PROGRAM...
                                                           the modules of the programs
  release notes    -version V -o FILE CHANGELOG            the part of a version
`

// verbs are the files that can be made. Each function writes one to w.
var verbs = map[string]func(j *job, w io.Writer) error{
	"archive":  (*job).archive,
	"image":    (*job).image,
	"licences": (*job).licences,
	"sbom":     (*job).sbom,
	"notes":    (*job).notes,
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 || verbs[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(64)
	}
	j := &job{}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.StringVar(&j.out, "o", "", "the file to write")
	flags.StringVar(&j.name, "name", "padlock", "the name of the program")
	flags.StringVar(&j.version, "version", "", "the version, such as v1.2.3")
	flags.StringVar(&j.goroot, "go", "", "the directory of Go")
	flags.Int64Var(&j.seconds, "time", 0, "the time of all files, in seconds since 1970")
	_ = flags.Parse(args[1:])
	j.args = flags.Args()
	if j.out == "" || len(j.args) == 0 {
		return fmt.Errorf("%s needs -o and an argument", args[0])
	}
	f, err := os.Create(j.out)
	if err != nil {
		return err
	}
	if err := verbs[args[0]](j, f); err != nil {
		f.Close()
		os.Remove(j.out)
		return err
	}
	return f.Close()
}
