// Command padlock-verify tests whether a store keeps its promises under faults.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/lab/soak"
	"github.com/padlock-go/padlock/open"
)

const help = `padlock-verify tests whether a store keeps its promises. It uses the store as many
programs at once would, makes the faults that a client can make, and prints each
promise next to the measured result.

Four processes with eight threads each take, hold, share, convert, hand over and
release some hundred locks, with leases of 0.4 to 2 seconds. Meanwhile padlock-verify
stops and kills processes and cancels calls. If the store is one server with one
address, a proxy also delays, cuts and resets connections and loses requests and
replies. Nothing is done to the server itself.

The names of its locks begin with padlock-verify- and a random text; it touches no
others. It removes lock files at the end; a server forgets the names within minutes.
The load is that of a very busy application: several thousand operations a second.

If a promise is broken, padlock-verify leaves the history of all locks in the
directory that it names at the end. INT or TERM ends the test early; what has been
done until then is judged.

With --certify it first asks the service what can be asked from outside: two and sixteen
writers at once, reads after writes, clocks, settings, and the suite of the contract.
It writes one file with each question, its numbers and its verdict: held, broke or not
asked. The file has no secrets, and a hash that padlock-verify show checks. With object
storage, DynamoDB and Kubernetes, a second file, NAME-conversation.json beside NAME.json,
has some forty requests and their replies, without secrets and the names of the place.

Usage:
  padlock-verify [--store URL] [--for DURATION]
  padlock-verify [--store URL] --certify FILE [--for DURATION]
  padlock-verify show FILE

Examples:
  padlock-verify --store redis://db1:6379
  padlock-verify --store redis://db1:6379 --for 10m
  padlock-verify --store file:///var/lib/shared-locks
  padlock-verify --store redis://db1:6379 --certify redis.json --for 30s

Flags:
  --store URL       the store (default $PADLOCK_STORE, else the URL in the file
                    $PADLOCK_STORE_FILE, else files of this user)
  --for DURATION    test for so long, such as 90s or 10m (default 1m)
  --certify FILE    ask everything, and write the certificate into FILE
  --seed NUMBER     the random seed, to repeat a run (default random)
  --keep DIRECTORY  for the history if a promise is broken (default a new temporary one)
  --version         print the version

Exit status:
  0    no promise was broken
  1    a promise was broken; see the table
  64   the command line or the store's URL is wrong
  69   the store cannot be reached, or could not be reached any more
  70   padlock-verify itself failed
`

const (
	exitViolated    = 1  // the store broke a promise
	exitUsage       = 64 // the command line or the URL of the store is wrong
	exitUnavailable = 69 // the store cannot be reached
	exitInternal    = 70 // padlock-verify itself failed
)

// release is the version of a release build, set by the linker.
var release = "of a source tree"

func main() {
	soak.PlayWorker(openInWorker)
	v := &verification{}
	if err := v.execute(context.Background(), os.Args[1:]); err != nil {
		v.fail(err)
	}
	os.Exit(v.status)
}

// errUsage is in each error for a wrong command line.
var errUsage = errors.New("see padlock-verify --help")

// execute does what the command line says.
func (v *verification) execute(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "show" {
		return show(args[1:])
	}
	version := false
	flags := v.flags()
	flags.BoolVar(&version, "version", false, "")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		_, err = fmt.Print(help)
		return err
	case err != nil:
		return fmt.Errorf("%v; %w", err, errUsage)
	case v.span <= 0:
		return fmt.Errorf("--for %v: there is no time to test anything; %w", v.span, errUsage)
	case flags.NArg() > 0:
		return fmt.Errorf("%q is too much; %w", flags.Arg(0), errUsage)
	case version:
		_, err = fmt.Printf("padlock-verify %s (%s, %s/%s)\n", release, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return err
	}
	if v.url == "" {
		if v.url, _, err = open.EnvURL(); err != nil {
			return err
		}
	}
	if v.file != "" {
		return v.certify(ctx)
	}
	return v.do(ctx)
}

func (v *verification) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("padlock-verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("store", "", func(text string) error {
		if text == "" { // from a variable that a script has not set
			return errors.New("give the URL of a store, or leave out --store")
		}
		v.url = text
		return nil
	})
	flags.DurationVar(&v.span, "for", time.Minute, "")
	flags.Uint64Var(&v.seed, "seed", uint64(time.Now().UnixNano())%1e9, "")
	flags.StringVar(&v.keep, "keep", "", "")
	flags.StringVar(&v.file, "certify", "", "")
	return flags
}

// fail prints why there is no verdict, and sets the exit status.
func (v *verification) fail(err error) {
	message := err.Error()
	switch {
	case errors.Is(err, errUsage), errors.Is(err, padlock.ErrInvalid), errors.Is(err, errors.ErrUnsupported):
		v.status = exitUsage
	case errors.Is(err, padlock.ErrUnavailable):
		v.status = exitUnavailable
	default:
		v.status = exitInternal
	}
	if v.status != exitUsage {
		message = v.place() + ": " + message
	}
	say(message)
}
