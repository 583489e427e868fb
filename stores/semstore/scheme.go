package semstore

import (
	"context"
	"net/url"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

const (
	whichHash  = "say how PHP names semaphores: hash=md5 (Symfony up to 6.2) or hash=xxh128 (since 6.3), as in semaphore:?hash=xxh128"
	orNoHash   = "; for sem_get with a number, write hash=none"
	noProjects = "padlock does not share the semaphores of a project (semaphore://PROJECT, since Symfony 8.1); use files (flock) in both programs"
)

// Scheme describes the URL semaphore:?hash=…, for package open.
func Scheme() storeurl.Scheme {
	return storeurl.Scheme{
		Names:       []string{"semaphore"},
		Help:        "semaphores of one machine, shared with PHP",
		Example:     "semaphore:?hash=xxh128",
		Guarantees:  func() driver.Guarantees { return guarantees },
		Open:        openURL,
		Symfony:     []string{"semaphore"},
		FromSymfony: fromSymfony,
		Instead:     urlForDSN,
	}
}

func openURL(ctx context.Context, u *url.URL, _ storeurl.Opening) (driver.Store, error) {
	s, err := FromURL(ctx, u)
	if err != nil {
		return nil, err // do not return s: a nil *Store makes a driver.Store that is not nil
	}
	return s, nil
}

// FromURL opens the store that a URL names: semaphore:?hash=md5, semaphore:?hash=xxh128 or
// semaphore:?hash=none. The parameter is required, since stores with different hashes do not see
// each other's locks. For any other URL FromURL returns driver.ErrInvalid. FromURL fails if ctx has
// ended; apart from that it does not use ctx. See Open for the other errors.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch {
	case u.Host != "":
		return nil, storekit.Invalidf(noProjects)
	case u.Path != "" || u.User != nil:
		return nil, storekit.Invalidf("a semaphore store's URL has only the parameter hash, as in semaphore:?hash=xxh128")
	}
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	for h, text := range hashes {
		if r.Values["hash"] == text {
			return Open(h, opts...)
		}
	}
	return nil, storekit.Invalidf(whichHash + orNoHash)
}

var form = storeurl.Form[Option]{
	Schemes: []string{"semaphore"}, Example: "semaphore:?hash=xxh128",
	Params: map[string]storeurl.Param[Option]{"hash": storeurl.Keep[Option]},
}

// fromSymfony reads a DSN of PHP with the hash appended: semaphore:?hash=md5. The result and the
// errors contain no other part of the DSN.
func fromSymfony(dsn string) (*url.URL, error) {
	rest, _ := strings.CutPrefix(dsn, "semaphore")
	for h, text := range hashes {
		if h != NoHash && rest == ":?hash="+text {
			return &url.URL{Scheme: "semaphore", RawQuery: "hash=" + text, OmitHost: true}, nil
		}
	}
	if strings.HasPrefix(rest, "://") {
		return nil, storekit.Invalidf(noProjects)
	}
	return nil, storekit.Invalidf(strings.Replace(whichHash, "in semaphore:", "in symfony+semaphore:", 1))
}

// urlForDSN returns text for a message. If the argument is the DSN of PHP's Symfony, the text lists
// the two URLs that can be written instead. Otherwise the text is empty.
func urlForDSN(text string) string {
	if text == "semaphore" {
		return "semaphore:?hash=md5 or semaphore:?hash=xxh128"
	}
	return ""
}
