package mongostore

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"

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
	return Open(ctx, t.config, append(t.opts, opts...)...)
}

const (
	example           = "mongodb://localhost/shop"
	defaultCollection = "padlock"
	defaultPort       = "27017"
)

var schemes = []string{"mongodb", "mongodb+srv"}

// params are padlock's own parameters. MongoDB's client does not get them.
var params = map[string]storeurl.Param[Option]{
	"collection":    storeurl.Keep[Option],
	"layout":        storeurl.OneOf("padlock", "symfony", SymfonyLayout()),
	"lazy":          storeurl.IfYes(Lazy()),
	"password-file": storeurl.PasswordFile[Option],
}

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
}

// parseURL reads a URL. It contacts no server.
func parseURL(u *url.URL) (*target, error) {
	if strings.Contains(u.Path+u.RawQuery, "@") { // a part of a password
		return nil, storekit.Invalidf("the URL has the form %s; in a password, # / ? and @ are written %%23 %%2F %%3F %%40", example)
	}
	form := storeurl.Form[Option]{Schemes: schemes, Example: example, Params: params, Hosts: true}
	mechanism := false // some mechanisms need no password
	for name, values := range u.Query() {
		switch known := strings.ToLower(name); {
		case slices.Contains(storeOptions, known):
			return nil, storekit.Invalidf("%s: the store decides this itself: it writes with majority and journal, reads from the primary, and waits for a silent server for 4.5 s", name)
		case slices.Contains(connectOptions, known) && values[0] != "":
			form.Others = append(form.Others, name)
			mechanism = mechanism || known == "authmechanism"
		}
	}
	r, err := form.Read(u)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(strings.Split(u.Host, ","), func(host string) bool { return host == "" || host[0] == ':' }) {
		return nil, storekit.Invalidf("the URL has an empty host")
	}
	database := strings.Trim(u.Path, "/")
	if database == "" || strings.ContainsAny(database, "/\\. \"$\x00") {
		return nil, storekit.Invalidf("the URL names no database, or one that cannot exist; write %s", example)
	}
	t := &target{config: Config{Database: database, Collection: cmp.Or(r.Values["collection"], defaultCollection)}, opts: r.Opts}
	if _, password := r.URL.User.Password(); password || r.Password != nil || !mechanism {
		if t.config.Credentials, err = r.Credentials(); err != nil {
			return nil, err
		}
		r.URL.User = nil
	}
	t.config.URI = r.URL.String()
	return t, nil
}
