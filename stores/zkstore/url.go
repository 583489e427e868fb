package zkstore

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// FromURL opens the store that a URL names:
//
//	zookeeper://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]…][/ROOT]
//
// It also takes the scheme zk. The default port is 2181, and the default root is /padlock. USER
// and PASSWORD log in with the digest scheme; see Config. The URL may have these parameters:
//
//	session-timeout=DURATION  SessionTimeout
//	fences=no                 NoFences
//	layout=symfony            SymfonyLayout; the default root is / then
//	lazy=yes                  Lazy
//	password-file=FILE        the password
//
// For any other parameter FromURL returns driver.ErrInvalid. opts are applied after the parameters
// of the URL. ctx limits only the opening. No error contains a password.
func FromURL(ctx context.Context, u *url.URL, opts ...Option) (*Store, error) {
	c, own, err := parseURL(u)
	if err != nil {
		return nil, err
	}
	return Open(ctx, c, append(own, opts...)...)
}

// parseURL reads a URL. It opens no connection.
func parseURL(u *url.URL) (c Config, opts []Option, err error) {
	query, err := url.ParseQuery(u.RawQuery)
	switch {
	case err != nil:
		return c, nil, invalid("the parameters of the URL cannot be read")
	case !slices.Contains(schemes, u.Scheme):
		return c, nil, invalid("the URL begins with %s:, not with %s:", schemes[0], u.Scheme)
	case u.Opaque != "" || u.Fragment != "" || u.Host == "":
		return c, nil, invalid("the URL has the form %s; in a password, # is written %%23", example)
	}
	if c.Servers, err = addresses(u.Host); err != nil {
		return c, nil, err
	}
	c.User = u.User.Username()
	c.Password, _ = u.User.Password()
	if root := strings.TrimSuffix(u.Path, "/"); root != "" {
		if checkRoot(root) != nil || strings.Contains(root, "@") { // the path may hold a part of a password
			return c, nil, invalid("the root in the URL: it is a path such as /shop/locks, of letters, digits and the characters - _ . : + , = ~, and not below /zookeeper; in a password, / is written %%2F")
		}
		opts = append(opts, Root(root))
	}
	for name, values := range query {
		read := parameters[name]
		switch {
		case read == nil:
			return c, nil, invalid("there is no parameter %q; there are %s", name, strings.Join(parameterNames(), ", "))
		case len(values) != 1:
			return c, nil, invalid("the parameter %s is given more than once", name)
		}
		o, err := read(&c, values[0])
		if err != nil {
			return c, nil, err
		}
		opts = append(opts, o)
	}
	if c.User == "" && c.Password != "" {
		return c, nil, invalid("there is a password without a user; write USER:PASSWORD@ or USER@")
	}
	return c, opts, nil
}

// addresses splits the hosts of a URL.
func addresses(hosts string) (out []string, err error) {
	for host := range strings.SplitSeq(hosts, ",") {
		if u, err := url.Parse("//" + host); err == nil && u.Port() == "" {
			host = net.JoinHostPort(u.Hostname(), "2181")
		}
		if name, _, err := net.SplitHostPort(host); err != nil || name == "" {
			return nil, invalid("a server of the URL is not HOST or HOST:PORT")
		}
		out = append(out, host)
	}
	return out, nil
}

// parameterNames lists the parameters that a URL may have.
func parameterNames() (names []string) {
	for name := range parameters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func nothing(*config) {}

// parameters holds a function for each parameter that a URL may have.
var parameters = map[string]func(c *Config, value string) (Option, error){
	"layout": func(_ *Config, v string) (Option, error) {
		switch v {
		case "symfony":
			return SymfonyLayout(), nil
		case "queue":
			return nothing, nil
		}
		return nil, invalid("layout: it is queue or symfony")
	},
	"fences": func(_ *Config, v string) (Option, error) {
		fences, err := yes("fences", v)
		if fences {
			return nothing, err
		}
		return NoFences(), err
	},
	"lazy": func(_ *Config, v string) (Option, error) {
		lazy, err := yes("lazy", v)
		if lazy {
			return Lazy(), err
		}
		return nothing, err
	},
	"session-timeout": func(_ *Config, v string) (Option, error) {
		d, err := time.ParseDuration(v)
		if err != nil {
			return nil, invalid("session-timeout: it is a duration such as 10s")
		}
		return SessionTimeout(d), nil
	},
	"password-file": func(c *Config, v string) (Option, error) {
		if c.Password != "" {
			return nil, invalid("the password is in the URL and in a file; leave one of them out")
		}
		var err error
		c.Password, err = readPassword(v)
		return nothing, err
	},
}

func yes(name, value string) (bool, error) {
	if value != "yes" && value != "no" {
		return true, invalid("%s: it is yes or no", name)
	}
	return value == "yes", nil
}

// readPassword reads the password from a file. No error contains the password.
func readPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("%w: %w", invalid("password-file"), err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" {
		return "", invalid("password-file: there is no password in %s", file)
	}
	return password, nil
}
