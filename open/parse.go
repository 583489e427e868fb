package open

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
	"github.com/padlock-go/padlock/stores/filestore"
)

// symfonyPrefix marks a DSN of PHP's Symfony Lock.
const symfonyPrefix = "symfony+"

// The patterns are compiled when a URL is wrong. To compile them at the start of each program takes
// longer than to open a store.
var (
	// addressPattern matches an address, with or without a port, or a path. People write these
	// instead of the URL of a server or a directory. Such a text contains no secret.
	addressPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(localhost|[0-9]+(\.[0-9]+){3}|[.~][A-Za-z0-9._~/-]*)(:[0-9]+)?$`)
	})
	// pathAsHost matches a URL in the form of psql whose host is the escaped path of a directory.
	pathAsHost = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9+]+://([^/@]*@)?%2[Ff]`)
	})
)

// hasScheme reports whether text begins with a scheme of URLs and a colon.
func hasScheme(text string) bool {
	for i, c := range []byte(text) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		switch {
		case c == ':':
			return i > 0
		case !letter && (i == 0 || !('0' <= c && c <= '9' || c == '+' || c == '.' || c == '-')):
			return false
		}
	}
	return false
}

// parse reads a URL and finds its scheme. Its errors repeat neither the URL nor the error of
// url.Parse, because both may contain a password.
func (o *opener) parse(rawURL string) (*url.URL, storeurl.Scheme, error) {
	none := storeurl.Scheme{}
	if err := o.misspelt(rawURL); err != nil {
		return nil, none, err
	}
	if dsn, ok := strings.CutPrefix(rawURL, symfonyPrefix); ok {
		return o.symfony(dsn)
	}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil && !strings.Contains(rawURL, "@") && strings.Contains(err.Error(), "invalid port"):
		return nil, none, storekit.Invalidf("the port in the URL of the store is not a number")
	case err != nil && pathAsHost().MatchString(rawURL):
		return nil, none, storekit.Invalidf("the host in the URL of the store is a path; write the socket as a parameter: postgres:///DATABASE?host=/DIRECTORY, mysql:///DATABASE?socket=/FILE")
	case err != nil || misplacedAt(u):
		return nil, none, storekit.Invalidf("the URL of the store cannot be read; in a user name, a password or a parameter write / ? # @ %% as %%2F %%3F %%23 %%40 %%25")
	}
	s, known := o.scheme(u.Scheme)
	if !known {
		return nil, none, o.unknownScheme(u.Scheme)
	}
	return u, s, checkPorts(u)
}

// checkPorts returns an error if the URL has a port that no server can have.
func checkPorts(u *url.URL) error {
	for host := range strings.SplitSeq(u.Host, ",") {
		_, port, err := net.SplitHostPort(host)
		if err != nil || port == "" { // the host has no port
			continue
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return storekit.Invalidf("a port in the URL of the store is not a number from 1 to 65535")
		}
	}
	return nil
}

// misspelt returns an error if text is not a URL, or is a URL only for another program. The error
// says what to write instead.
func (o *opener) misspelt(text string) error {
	switch {
	case text != strings.TrimSpace(text):
		return storekit.Invalidf("the URL of the store begins or ends with a blank or a newline; remove it (echo adds a newline, printf %%s does not)")
	case text == "":
		return storekit.Invalidf("no store is named; write a URL such as file:///var/lib/locks")
	case strings.HasPrefix(text, "/") && strings.Contains(text, "@"): // the @ may follow a password
		return storekit.Invalidf("a store is named by a URL, which begins with a scheme and a colon; for a directory write file:///DIRECTORY")
	case strings.HasPrefix(text, "/"):
		return storekit.Invalidf("a store is named by a URL; for this directory write %s", filestore.URL(text))
	case strings.HasPrefix(text, symfonyPrefix):
		return nil
	}
	for _, s := range o.schemes {
		if s.Instead == nil {
			continue
		}
		if write := s.Instead(text); write != "" {
			return storekit.Invalidf("write %s instead%s", write, orSymfony(s, text))
		}
	}
	const write = "a store is named by a URL such as file:///var/lib/locks or redis://127.0.0.1:6379"
	switch {
	case strings.Contains(text, "://"): // no address has that
	case addressPattern().MatchString(text): // repeated in the error, because it contains no password
		return storekit.Invalidf("%q is not a URL; %s", text, write)
	}
	if !hasScheme(text) {
		return storekit.Invalidf(write)
	}
	return nil
}

// orSymfony returns the end of an error message for a user who wrote a DSN of PHP's Symfony Lock.
// The end says how to write that DSN for padlock. The result is "" if text is not a DSN, or if a
// store of the scheme s cannot share locks with PHP.
func orSymfony(s storeurl.Scheme, text string) string {
	name, _, _ := strings.Cut(text, ":")
	if !slices.Contains(s.Symfony, name) {
		return ""
	}
	return ", or put symfony+ before the DSN to share the locks that PHP keeps there"
}

// symfony finds the store of a DSN and translates the DSN.
func (o *opener) symfony(dsn string) (*url.URL, storeurl.Scheme, error) {
	name, _, _ := strings.Cut(dsn, ":")
	for _, s := range slices.Backward(o.schemes) {
		if slices.Contains(s.Symfony, name) {
			u, err := s.FromSymfony(dsn)
			switch {
			case err != nil:
				return nil, s, err
			case strings.Contains(u.Host, "@"): // the end of the password was read as the host
				return nil, s, storekit.Invalidf("the DSN of the store cannot be read; in a user name or a password write @ as %%40")
			}
			return u, s, checkPorts(u)
		}
	}
	return nil, storeurl.Scheme{}, o.unknownDSN(name)
}

// misplacedAt reports whether a part of the URL after the host contains an @. That part may then be
// a password, which padlock would not recognise as a secret. It happens if the URL has a slash too
// many or too few, or if a character of the password is not escaped. An @ is allowed in the name of
// a directory.
func misplacedAt(u *url.URL) bool {
	behind := u.EscapedPath() + u.Opaque + u.Fragment
	if u.Scheme != "file" && u.User == nil && strings.Contains(behind, "@") {
		return true
	}
	return u.Host != "" && u.User == nil && strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// distinct returns an error if two members of a composite store are the same store. That store
// would have two votes. Under the scheme "all", which moves locks from one store to another, PHP's
// table and padlock's own tables may be in one SQL database.
func (o *opener) distinct(scheme string, members []string) error {
	seen := map[string]int{}
	for i, member := range members {
		u, s, err := o.parse(member)
		if err != nil || s.InProcess { // every URL "memory:" opens a store of its own
			continue
		}
		query := u.Query()
		place := fmt.Sprintf("%s//%s%s%s?%q&%q", u.Scheme, strings.ToLower(u.Host), u.Path, u.Opaque, query.Get("prefix"), query.Get("db"))
		switch {
		case s.Composite:
			place = member
		case scheme == "all" && s.Schema != nil && query.Has("layout"):
			place += "&layout"
		}
		if first, ok := seen[place]; ok {
			return storekit.Invalidf("stores %d and %d are the same: each store of a quorum has one vote", first+1, i+1)
		}
		seen[place] = i
	}
	return nil
}

// tellApart are the parameters of URLs by which two stores on one server differ. None is secret.
var tellApart = []string{"collection", "db_table", "hash", "host", "layout", "namespace", "port", "prefix", "schema", "socket"}

func (o *opener) redacted(rawURL string) string {
	u, s, err := o.parse(rawURL)
	switch {
	case err != nil:
		return "a store whose URL cannot be read"
	case s.Composite:
		var members []string
		for _, m := range u.Query()["store"] {
			members = append(members, o.redacted(m))
		}
		if members == nil {
			return u.Scheme + ":…"
		}
		return u.Scheme + " of " + strings.Join(members, ", ")
	case u.Opaque != "":
		return u.Scheme + ":…"
	}
	query := u.Query()
	maps.DeleteFunc(query, func(name string, values []string) bool {
		return !slices.Contains(tellApart, name) || values[0] == ""
	})
	rest := strings.NewReplacer("%3A", ":", "%2F", "/").Replace(query.Encode()) // they need no escape there
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, OmitHost: u.OmitHost, RawQuery: rest}).String()
}
