package command

import (
	"bytes"
	"io"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/padlock-go/padlock"
)

const keyLong = `key makes a key from the token of another program, such as PHP's Symfony Lock, that
holds the lock NAME in the same store. With the key, padlock adopt takes the lock
over, padlock extend prolongs it, and padlock release releases it. With --token it
does the reverse: it prints the token of a key, for a program that takes the lock
over without padlock.

The token is read from the file of --token-file, else from standard input. In PHP it
is $key->getState(Symfony\Component\Lock\Store\RedisStore::class). Token and key
are secrets: either is all that is needed to release the lock.

key asks no store, so it does not know whether the lock is still held. Configure the
store for the other program's locks, as with symfony+redis://HOST.

Exit status:
  0    done
  64   the command line, the token or the key is wrong
  74   the output could not be written`

// conversion holds the flags of key.
type conversion struct {
	token              bool // --token: convert a key to its token
	shared             bool
	tokenFile, keyFile string
}

// converted is what key prints in JSON.
type converted struct {
	named
	Key     string `json:"key,omitempty"`
	KeyFile string `json:"key_file,omitempty"`
	Token   string `json:"token,omitempty"`
	Shared  bool   `json:"shared"`
}

func (a *app) keyCommand() *cobra.Command {
	set := &conversion{}
	c := &cobra.Command{
		Use:   "key [FLAGS] NAME",
		Short: "Convert another program's token to a key, or back",
		Long:  keyLong,
		Example: `  padlock key deploy <token >deploy.key
  padlock key --token-file token --key-file deploy.key deploy
  padlock key --token --key-file deploy.key`,
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if set.token {
				return noArgs(c, args)
			}
			return oneName(c, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Ignore(syscall.SIGPIPE) // a closed pipe must cause an error and not end this process
			if set.token {
				return a.tokenOf(set)
			}
			return a.keyFor(set, args[0])
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&set.token, "token", false, "print the token of a key; there is no NAME then")
	f.BoolVarP(&set.shared, "shared", "s", false, "the token is that of a shared lock")
	f.StringVar(&set.tokenFile, "token-file", "", "read the token from `FILE`")
	keyFlag(c, &set.keyFile, "write the key to `FILE`, or with --token read it from there")
	return c
}

// keyFor makes a key from a token.
func (a *app) keyFor(set *conversion, name string) error {
	token, err := readToken(set.tokenFile)
	if err != nil {
		return err
	}
	mode := padlock.ModeExclusive
	if set.shared {
		mode = padlock.ModeShared
	}
	key, err := padlock.KeyFor(name, token, mode)
	if err != nil {
		return fail(exitUsage, "usage", name, "no lock can have this name or token: %s", reason(err))
	}
	out := converted{named: newNamed(name), Key: key.Text(), Shared: key.Shared()}
	if set.keyFile != "" {
		place, err := newKeyPlace(set.keyFile, keyRoom)
		if err != nil {
			return err
		}
		defer place.drop()
		if err := place.write(out.Key); err != nil {
			return fail(exitOutput, "output", name, "the key of %s could not be written: %s", show(name), pathReason(err))
		}
		out.Key, out.KeyFile = "", place.file
	}
	return a.printSecret(out, out.Key)
}

// tokenOf prints the token of a key.
func (a *app) tokenOf(set *conversion) error {
	if set.shared || set.tokenFile != "" {
		return usage("--token prints a token; --shared and --token-file are for making a key")
	}
	key, err := a.readKey(set.keyFile)
	if err != nil {
		return err
	}
	return a.printSecret(converted{named: newNamed(key.Name()), Token: key.Token(), Shared: key.Shared()}, key.Token())
}

// printSecret prints a line that contains a secret. If the secret was written to a file, the line
// is empty and nothing is printed. With --json, printSecret prints the first parameter as JSON
// instead of the line.
func (a *app) printSecret(out converted, line string) error {
	switch {
	case a.json:
		return a.print(a.stdout, out)
	case line == "":
		return nil
	}
	_, err := io.WriteString(a.stdout, line+"\n")
	return err
}

// readToken reads a token from a file or from standard input.
func readToken(file string) (string, error) {
	text, _, err := readSecret(file)
	text = bytes.TrimSpace(text)
	switch {
	case err != nil:
		return "", fail(exitUsage, "usage", "", "the token cannot be read: %s", pathReason(err))
	case len(text) == 0:
		return "", usage("there is no token; pass it by --token-file FILE or on standard input")
	}
	return string(text), nil
}
