package open

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/filestore"
)

// Option changes what Store accepts.
type Option func(*opener)

// BetweenProcesses refuses stores that one process alone can see, on their own
// and as members of a quorum.
func BetweenProcesses() Option { return func(o *opener) { o.betweenProcesses = true } }

// StateDir is where a store may remember, from one process to the next, what it
// must know of its server: redisstore keeps there which run of a Redis it spoke
// to, so that the restart guard acts in programs that cron starts. The directory
// is made when it is needed.
func StateDir(dir string) Option { return func(o *opener) { o.state = dir } }

// Store opens the store that a URL names, such as file:///var/lib/locks. After
// symfony+ stands a DSN of PHP's Symfony, and the store is the one that PHP would
// use for it, in the same layout. The
// error for a URL that names none answers errors.Is for driver.ErrInvalid and
// says what to write; other errors are those of the store. No error repeats a
// user, a password or a parameter of the URL.
//
// Close the store, or the Locker that owns it. ctx bounds the opening only.
func Store(ctx context.Context, rawURL string, opts ...Option) (driver.Store, error) {
	var o opener
	for _, opt := range opts {
		opt(&o)
	}
	return o.open(ctx, rawURL)
}

// DefaultURL names the store of this user on this machine: lock files in a
// private directory that is found from the user id alone, so that cron, sudo
// and a shell meet. Two users never share it.
func DefaultURL() (string, error) {
	dir, err := DefaultDir()
	if err != nil {
		return "", err
	}
	return FileURL(dir), nil
}

// DefaultDir is the private directory of this user on this machine, which is
// made if need be: for lock files, and for StateDir.
func DefaultDir() (string, error) { return filestore.DefaultDir() }

// Schemes lists how the URL of a store may begin, in order.
func Schemes() []string {
	names := slices.Clone(symfonySchemes)
	for name := range schemes() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// opener is one call of Store.
type opener struct {
	betweenProcesses bool
	state            string // a directory, or ""
	depth            int    // of quorums in quorums
	mayBeDown        bool   // a majority of others will do
}

func (o *opener) open(ctx context.Context, rawURL string) (driver.Store, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, err
	}
	construct := schemes()[u.Scheme]
	if construct == nil {
		return nil, o.unknownScheme(u.Scheme)
	}
	return construct(ctx, o, u)
}

var schemePattern = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)

// parse reads a URL. Its errors never repeat it, nor what url.Parse says of
// it, since either may hold a password.
func parse(rawURL string) (*url.URL, error) {
	switch {
	case rawURL != strings.TrimSpace(rawURL):
		return nil, invalid("the URL of the store begins or ends with a blank or a newline; remove it (echo adds a newline, printf %%s does not)")
	case rawURL == "":
		return nil, invalid("no store is named; write a URL such as file:///var/lib/locks")
	case strings.HasPrefix(rawURL, symfonyPrefix):
		return symfony(strings.TrimPrefix(rawURL, symfonyPrefix))
	case strings.HasPrefix(rawURL, "/"):
		return nil, invalid("a store is named by a URL; for this directory write %s", FileURL(rawURL))
	}
	if err := foreignSpelling(rawURL); err != nil {
		return nil, err
	}
	if !schemePattern.MatchString(rawURL) || addressPattern.MatchString(rawURL) {
		return nil, noURL(rawURL)
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil && !strings.Contains(rawURL, "@") && strings.Contains(err.Error(), "invalid port"):
		return nil, invalid("the port in the URL of the store is not a number")
	case err != nil || misplacedAt(u):
		return nil, invalid("the URL of the store cannot be read; in a user name, a password or a parameter write / ? # @ %% as %%2F %%3F %%23 %%40 %%25")
	}
	return u, nil
}

// addressPattern is what people write who mean a server or a directory: an
// address, perhaps with a port, or a path. Such a text holds no secret.
var addressPattern = regexp.MustCompile(`^(localhost|[0-9]+(\.[0-9]+){3}|[.~][A-Za-z0-9._~/-]*)(:[0-9]+)?$`)

// noURL says what to write instead of a text that is no URL. It repeats the text
// only where that cannot be a password.
func noURL(text string) error {
	const write = "a store is named by a URL such as file:///var/lib/locks or redis://127.0.0.1:6379"
	if addressPattern.MatchString(text) {
		return invalid("%q is no URL; %s", text, write)
	}
	return invalid(write)
}

// misplacedAt tells that a slash too many or too few, or an unescaped character
// of a password, moved the password to where it is no secret: behind the host.
// Only a directory may have an @ in its name.
func misplacedAt(u *url.URL) bool {
	behind := u.EscapedPath() + u.Opaque + u.Fragment
	if u.Scheme != "file" && u.User == nil && strings.Contains(behind, "@") {
		return true
	}
	return u.Host != "" && u.User == nil && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

func (o *opener) unknownScheme(scheme string) error {
	if len(scheme) == 1 {
		return invalid("a store is named by a URL; for a directory on a drive write file:///%s:/…", strings.ToUpper(scheme))
	}
	known := Schemes()
	if o.betweenProcesses {
		known = slices.DeleteFunc(known, func(s string) bool { return s == "memory" })
	}
	return invalid("there is no store for %s: URLs; the URL of a store begins with %s:", scheme, strings.Join(known, ": or "))
}

// FileURL is the URL of lock files in a directory, whose path begins at the root
// or, on Windows, with a drive.
func FileURL(dir string) string {
	dir = strings.ReplaceAll(dir, `\`, "/")
	if !strings.HasPrefix(dir, "/") {
		dir = "/" + dir // a drive's letter
	}
	return (&url.URL{Scheme: "file", Path: dir}).String()
}

// Redacted returns a URL as it may be shown: without user, password and
// parameters. A DSN after symfony+ is shown as the URL that it stands for.
func Redacted(rawURL string) string {
	u, err := parse(rawURL)
	switch {
	case err != nil:
		return "a store whose URL cannot be read"
	case rules()[u.Scheme] != nil:
		members, err := memberURLs(u)
		if err != nil {
			return u.Scheme + ":…"
		}
		for i := range members {
			members[i] = Redacted(members[i])
		}
		return u.Scheme + " of " + strings.Join(members, ", ")
	case u.Opaque != "":
		return u.Scheme + ":…"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, OmitHost: u.OmitHost}).String()
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}
