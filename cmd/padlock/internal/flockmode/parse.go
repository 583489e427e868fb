package flockmode

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// options is a parsed command line.
type options struct {
	shared, unlock, nonblock bool
	closes, noFork, verbose  bool
	help, version            bool
	timeout                  time.Duration // 0 means no time-out
	conflict                 int
	file                     string // the file to open, if there is a command
	fd                       int    // the descriptor, if there is no command
	command                  []string
}

// letters are the short options. A colon means that a value follows.
const letters = "sexnouFw:E:hV"

// longNames has the long names of the options.
var longNames = []struct {
	name   string
	letter byte
	value  bool
}{
	{"shared", 's', false}, {"exclusive", 'x', false}, {"unlock", 'u', false},
	{"nonblocking", 'n', false}, {"nb", 'n', false},
	{"timeout", 'w', true}, {"wait", 'w', true}, {"conflict-exit-code", 'E', true},
	{"close", 'o', false}, {"no-fork", 'F', false}, {"verbose", 'v', false},
	{"help", 'h', false}, {"version", 'V', false},
}

func misused(format string, args ...any) error {
	f := fail(exitUsage, format, args...).(*failure)
	f.hint = true
	return f
}

// parse reads a command line as getopt_long(3) does, up to the first argument that is not an
// option.
func parse(args []string) (*options, error) {
	if len(args) == 0 {
		return nil, misused("not enough arguments")
	}
	o := &options{conflict: exitConflict}
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			break
		}
		var err error
		if strings.HasPrefix(arg, "--") {
			args, err = o.parseLong(arg[2:], args)
		} else {
			args, err = o.parseShort(arg[1:], args)
		}
		if err != nil || o.help || o.version {
			return o, err
		}
	}
	if o.noFork && o.closes {
		return nil, fail(exitUsage, "--no-fork and --close exclude each other")
	}
	return o, o.operands(args)
}

// parseShort parses a group of short options, such as -xn. The last option of the group may have a
// value.
func (o *options) parseShort(group string, rest []string) ([]string, error) {
	for i := range len(group) {
		c := group[i]
		at := strings.IndexByte(letters, c)
		switch {
		case at < 0 || c == ':':
			return nil, misused("invalid option -- '%c'", c)
		case at+1 == len(letters) || letters[at+1] != ':':
			if err := o.set(c, ""); err != nil || o.help || o.version {
				return rest, err
			}
		case i+1 < len(group):
			return rest, o.set(c, group[i+1:])
		case len(rest) == 0:
			return nil, misused("option requires an argument -- '%c'", c)
		default:
			return rest[1:], o.set(c, rest[0])
		}
	}
	return rest, nil
}

// parseLong parses a long option. The name of the option may be abbreviated if the abbreviation is
// unique.
func (o *options) parseLong(arg string, rest []string) ([]string, error) {
	name, value, given := strings.Cut(arg, "=")
	found := -1
	for i, l := range longNames {
		if l.name == name {
			found = i
			break
		}
		if strings.HasPrefix(l.name, name) {
			if found >= 0 && longNames[found].letter != l.letter {
				return nil, misused("option '--%s' is ambiguous", name)
			}
			found = i
		}
	}
	switch {
	case found < 0:
		return nil, misused("unrecognized option '--%s'", name)
	case !longNames[found].value && given:
		return nil, misused("option '--%s' takes no argument", longNames[found].name)
	case longNames[found].value && !given && len(rest) == 0:
		return nil, misused("option '--%s' requires an argument", longNames[found].name)
	case longNames[found].value && !given:
		value, rest = rest[0], rest[1:]
	}
	return rest, o.set(longNames[found].letter, value)
}

func (o *options) set(letter byte, value string) (err error) {
	switch letter {
	case 's':
		o.shared, o.unlock = true, false
	case 'e', 'x':
		o.shared, o.unlock = false, false
	case 'u':
		o.unlock = true
	case 'n':
		o.nonblock = true
	case 'o':
		o.closes = true
	case 'F':
		o.noFork = true
	case 'v':
		o.verbose = true
	case 'h':
		o.help = true
	case 'V':
		o.version = true
	case 'w':
		o.timeout, err = parseTimeout(value)
		if err == nil && o.timeout == 0 {
			o.nonblock = true
		}
	case 'E':
		o.conflict, err = parseStatus(value)
	}
	return err
}

func parseTimeout(value string) (time.Duration, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	switch {
	case err != nil || n != n:
		return 0, fail(exitUsage, "invalid timeout value: '%s'", value)
	case n < 0:
		return -1, nil // the error is reported when the timer is set
	}
	const longest = 1 << 62
	if n *= float64(time.Second); n > longest {
		return longest, nil
	}
	return time.Duration(n), nil
}

func parseStatus(value string) (int, error) {
	n, err := strconv.Atoi(value)
	switch {
	case err != nil:
		return 0, fail(exitUsage, "invalid exit code: '%s'", value)
	case n < 0 || n > 255:
		return 0, fail(exitUsage, "exit code out of range (expected 0 to 255)")
	}
	return n, nil
}

// operands parses the arguments after the options.
func (o *options) operands(args []string) error {
	switch {
	case len(args) == 0:
		return fail(exitUsage, "a file descriptor, a file or a directory is missing")
	case len(args) == 1:
		n, err := strconv.ParseInt(strings.TrimSpace(args[0]), 10, 32)
		if err != nil {
			return fail(exitUsage, "bad file descriptor: '%s'", args[0])
		}
		o.fd = int(n)
		return nil
	case args[1] != "-c" && args[1] != "--command":
		o.file, o.command = args[0], args[1:]
		return nil
	case len(args) != 3:
		return fail(exitUsage, "%s requires exactly one command argument", args[1])
	}
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	o.file, o.command = args[0], []string{shell, "-c", args[2]}
	return nil
}
