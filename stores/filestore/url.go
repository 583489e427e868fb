package filestore

import (
	"context"
	"net/url"
	"runtime"
	"strings"

	"github.com/padlock-go/padlock/storekit"
)

// FromURL opens the store that a URL of the form file:///dir names. The query may have these
// parameters:
//
//	create=no       the directory must exist (NoCreate)
//	group=yes       AllowGroup
//	world=yes       AllowWorld
//	nfs=force       AllowNetwork
//
// Any other parameter is driver.ErrInvalid. The options in opts override the parameters of the URL.
// FromURL fails if ctx has ended; apart from that it does not use ctx, because Open does not wait.
// For the other errors see Open.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := dirOf(u)
	if err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, storekit.Invalidf("the query of the URL cannot be read: %v", err)
	}
	var said []Option
	for name, values := range query {
		o, err := parameter(name, values)
		if err != nil {
			return nil, err
		}
		said = append(said, o)
	}
	return Open(dir, append(said, opts...)...)
}

func dirOf(u *url.URL) (string, error) {
	switch {
	case u.Scheme != "file":
		return "", storekit.Invalidf("the scheme of a file store's URL is file, as in file:///var/lib/locks")
	case u.Opaque != "" || u.Path == "":
		return "", storekit.Invalidf("a file store's URL names a directory from the root: file:///var/lib/locks")
	case u.Host != "" && u.Host != "localhost":
		return "", storekit.Invalidf("a file store's URL has no host: write file:/// with three slashes")
	case u.User != nil:
		return "", storekit.Invalidf("a file store's URL has no user")
	case u.Fragment != "":
		return "", storekit.Invalidf("a file store's URL has no fragment; write # as %%23")
	}
	if runtime.GOOS == "windows" {
		return strings.TrimPrefix(u.Path, "/"), nil
	}
	return u.Path, nil
}

func parameter(name string, values []string) (Option, error) {
	if len(values) != 1 {
		return nil, storekit.Invalidf("the parameter %q is given more than once", name)
	}
	switch value := values[0]; name {
	case "nfs":
		if value != "force" {
			return nil, storekit.Invalidf("nfs=%q: the only value is force", value)
		}
		return AllowNetwork(), nil
	case "group", "world", "create":
		return switchParameter(name, value)
	}
	return nil, storekit.Invalidf("unknown parameter %q: there are create, group, nfs and world", name)
}

func switchParameter(name, value string) (Option, error) {
	if value != "yes" && value != "no" {
		return nil, storekit.Invalidf("%s=%q: write yes or no", name, value)
	}
	switch {
	case name == "group" && value == "yes":
		return AllowGroup(), nil
	case name == "world" && value == "yes":
		return AllowWorld(), nil
	case name == "create" && value == "no":
		return NoCreate(), nil
	}
	return func(*config) {}, nil
}
