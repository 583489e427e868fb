package mongostore

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// FromURL opens the store that a URL names. The URL is MongoDB's connection string with a database:
//
//	mongodb://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…]/DATABASE
//	mongodb+srv://[USER:PASSWORD@]HOST/DATABASE
//
// A host without a port has port 27017. If any host has a port, the last host also needs a port.
//
// The URL may have the options of MongoDB's connection string that say how to connect, such as
// replicaSet, tls and authSource. padlock itself has these parameters:
//
//	collection=NAME      the collection; padlock is the default
//	layout=symfony       SymfonyLayout; padlock is the default
//	lazy=yes             Lazy
//	password-file=FILE   the password
//
// For any other parameter FromURL returns driver.ErrInvalid. If the URL begins with mongodb+srv,
// FromURL asks the name server, even with Lazy. opts are applied after the parameters of the URL.
// ctx bounds only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	t, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	if t.file != "" {
		if t.config.Password, err = storeurl.ReadPassword("password-file", t.file); err != nil {
			return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
		}
	}
	return Open(ctx, t.config, append(t.opts, opts...)...)
}

const (
	example           = "mongodb://localhost/shop"
	defaultCollection = "padlock"
	defaultPort       = "27017"
)

var schemes = []string{"mongodb", "mongodb+srv"}

// ownParams has the names of padlock's parameters. MongoDB's client does not get them.
var ownParams = []string{"collection", "layout", "lazy", "password-file"}

// connectOptions has the options of MongoDB's connection string that a URL may have, in lower case.
// It does not have the options that decide when a read or a write counts as done, because the store
// sets those options itself.
var connectOptions = []string{
	"appname", "authmechanism", "authmechanismproperties", "authsource", "compressors", "connecttimeoutms",
	"directconnection", "heartbeatfrequencyms", "loadbalanced", "localthresholdms", "maxconnecting", "maxidletimems",
	"maxpoolsize", "minpoolsize", "replicaset", "retryreads", "retrywrites", "servermonitoringmode", "srvmaxhosts",
	"srvservicename", "ssl", "tls", "tlsallowinvalidcertificates", "tlsallowinvalidhostnames", "tlscafile",
	"tlscertificatefile", "tlscertificatekeyfile", "tlsinsecure", "tlsprivatekeyfile", "zlibcompressionlevel",
}

// storeOptions has the options of MongoDB's connection string that the store sets itself.
var storeOptions = []string{
	"fsync", "journal", "maxstalenessseconds", "readconcernlevel", "readpreference", "readpreferencetags",
	"serverselectiontimeoutms", "sockettimeoutms", "timeoutms", "w", "wtimeoutms", "waitqueuetimeoutms",
}

// A target is a URL that parseURL has read.
type target struct {
	config Config
	opts   []Option
	file   string // with the password
}

// parseURL reads a URL. It contacts no server.
func parseURL(u *url.URL) (*target, error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return nil, storekit.Invalidf("the parameters of the URL cannot be read")
	case !slices.Contains(schemes, u.Scheme):
		return nil, storekit.Invalidf("the URL begins with mongodb: or mongodb+srv:, not with %s:", u.Scheme)
	case u.Opaque != "" || u.Fragment != "" || u.Host == "" || strings.Contains(u.Path+u.RawQuery, "@"):
		return nil, storekit.Invalidf("the URL has the form %s; in a password, # / ? and @ are written %%23 %%2F %%3F %%40", example)
	case slices.ContainsFunc(strings.Split(u.Host, ","), func(host string) bool { return host == "" || host[0] == ':' }):
		return nil, storekit.Invalidf("the URL has an empty host")
	}
	database := strings.Trim(u.Path, "/")
	if database == "" || strings.ContainsAny(database, "/\\. \"$\x00") {
		return nil, storekit.Invalidf("the URL names no database, or one that cannot exist; write %s", example)
	}
	t := &target{config: Config{Database: database, Collection: defaultCollection}}
	if err := t.read(query); err != nil {
		return nil, err
	}
	_, both := u.User.Password()
	switch {
	case both && t.file != "":
		return nil, storekit.Invalidf("the password is in the URL and in a file; leave one of them out")
	case u.User.Username() == "" && (both || t.file != ""):
		return nil, storekit.Invalidf("there is a password without a user; write USER:PASSWORD@ or USER@")
	case t.file != "":
		t.config.User = u.User.Username()
	case u.User.Username() != "" && !both && !hasMechanism(query):
		return nil, storekit.Invalidf("the user has no password; write USER:PASSWORD@ or password-file=FILE")
	}
	rest := *u
	if t.file != "" {
		rest.User = nil
	}
	for _, name := range ownParams {
		query.Del(name)
	}
	rest.RawQuery = query.Encode()
	t.config.URI = rest.String()
	return t, nil
}

// hasMechanism reports whether the URL names an authentication mechanism. Some mechanisms need no
// password.
func hasMechanism(query url.Values) bool {
	for name := range query {
		if strings.EqualFold(name, "authMechanism") {
			return true
		}
	}
	return false
}

func (t *target) read(query url.Values) error {
	for name, values := range query {
		value := values[0]
		switch {
		case len(values) > 1:
			return storekit.Invalidf("the parameter %s is given more than once", name)
		case value == "":
			return storekit.Invalidf("the parameter %s needs a value", name)
		case name == "collection":
			t.config.Collection = value
		case name == "layout" && value == "symfony":
			t.opts = append(t.opts, SymfonyLayout())
		case name == "layout" && value != "padlock":
			return storekit.Invalidf("layout: it is padlock or symfony")
		case name == "lazy" && value == "yes":
			t.opts = append(t.opts, Lazy())
		case name == "lazy" && value != "no":
			return storekit.Invalidf("lazy: it is yes or no")
		case name == "password-file":
			t.file = value
		case slices.Contains(storeOptions, strings.ToLower(name)):
			return storekit.Invalidf("%s: the store decides this itself: it writes with majority and journal, reads from the primary, and waits for a silent server for 4.5 s", name)
		case !slices.Contains(ownParams, name) && !slices.Contains(connectOptions, strings.ToLower(name)):
			return storekit.Invalidf("there is no parameter %q; there are %s, and MongoDB's options of the connection", name, strings.Join(ownParams, ", "))
		}
	}
	return nil
}
