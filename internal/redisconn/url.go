package redisconn

import (
	"context"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock/storekit/storeurl"
)

// ReadURL reads the URL of a Redis, as redisstore.FromURL describes it. The map has the additional
// parameters of the caller; ReadURL returns the options that they add. No error contains a
// password. A wrong URL is driver.ErrInvalid.
func ReadURL[O any](u *url.URL, own map[string]storeurl.Param[O]) (*Server, []O, error) {
	form := storeurl.Form[O]{
		Schemes: []string{"redis", "rediss", "redis+unix", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"},
		Example: "redis://HOST:PORT/DB",
		Params: map[string]storeurl.Param[O]{
			"db": storeurl.Keep[O], "client-name": storeurl.Keep[O],
			"tls": storeurl.Yes[O], "tls-verify": storeurl.Yes[O],
			"ca": storeurl.Keep[O], "cert": storeurl.Keep[O], "key": storeurl.Keep[O], "server-name": storeurl.Keep[O],
			"password-file": storeurl.PasswordFile[O],
			"sentinel-user": storeurl.Keep[O], "sentinel-password": storeurl.Keep[O], "sentinel-password-file": storeurl.Keep[O],
		},
		Others: []string{"node"}, Repeat: true,
	}
	maps.Copy(form.Params, own)
	r, err := form.Read(u)
	if err != nil {
		return nil, nil, err
	}
	var c Config
	if err := c.readPlace(u, r.Values["db"], r.URL.Query()["node"]); err != nil {
		return nil, nil, err
	}
	if err := c.readLogin(u, r.Values, r.Password); err != nil {
		return nil, nil, err
	}
	on, verify := strings.HasPrefix(u.Scheme, "rediss") || r.Values["tls"] == "yes", r.Values["tls-verify"] != "no"
	const write = "rediss:// or tls=yes"
	if err := r.CheckTLS(on, write); err != nil {
		return nil, nil, err
	}
	switch {
	case on:
		if c.TLS, err = r.TLS(); err != nil {
			return nil, nil, err
		}
		c.TLS.InsecureSkipVerify = !verify
	case !verify:
		return nil, nil, invalid("tls-verify: you need %s for TLS", write)
	}
	c.ClientName = r.Values["client-name"]
	server, err := New(c)
	return server, r.Opts, err
}

// readPlace reads the hosts and the database of the URL. The arguments db and nodes are the values
// of these parameters.
func (c *Config) readPlace(u *url.URL, db string, nodes []string) error {
	inPath, err := c.readPath(u)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if _, _, err := net.SplitHostPort(node); err != nil {
			return invalid("node: write HOST:PORT")
		}
	}
	c.Addrs = append(c.Addrs, nodes...)
	if len(c.Addrs) > 1 && !c.Cluster && c.Sentinel.MasterName == "" {
		return invalid("%s: names one host; there are redis+cluster: and redis+sentinel:", u.Scheme)
	}
	if db != "" && inPath != "" {
		return invalid("db: the database is in the path of the URL and in the parameter; leave one of them out")
	}
	if db += inPath; db != "" {
		if c.DB, err = strconv.Atoi(db); err != nil || c.DB < 0 {
			return invalid("db: it is a number from 0")
		}
	}
	return nil
}

// readPath reads the host and the path of the URL. Their meaning depends on the scheme. readPath
// returns the database in the path.
func (c *Config) readPath(u *url.URL) (db string, err error) {
	port, path := "6379", strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "redis+unix":
		return "", c.readSocket(u)
	case "redis", "rediss":
		if u.Host == "" {
			return "", c.readSocket(u)
		}
		db = path
	case "redis+sentinel", "rediss+sentinel":
		port = "26379"
		if c.Sentinel.MasterName, db, _ = strings.Cut(path, "/"); c.Sentinel.MasterName == "" {
			return "", invalid("the URL does not say what Sentinel calls the primary: redis+sentinel://HOST,HOST/SET")
		}
	default:
		if c.Cluster = true; path != "" {
			return "", invalid("a cluster has one database only, so the URL has no path")
		}
	}
	c.Addrs, err = storeurl.Addresses(u.Host, port)
	return db, err
}

func (c *Config) readSocket(u *url.URL) error {
	if u.Host != "" || len(u.Path) < 2 || u.Scheme == "rediss" {
		return invalid("the URL of a unix socket has a path and no host: redis+unix:///run/redis/redis.sock")
	}
	if _, err := strconv.Atoi(u.Path[1:]); err == nil {
		return invalid("the URL has no host; write redis://localhost%s", u.Path)
	}
	c.Socket = u.Path
	return nil
}

// readLogin reads and checks the logins. readFile reads the password file, and is nil without one.
func (c *Config) readLogin(u *url.URL, values map[string]string, readFile func() (string, error)) error {
	s, sentinelFile := &c.Sentinel, values["sentinel-password-file"]
	c.User = u.User.Username()
	c.Password, _ = u.User.Password()
	s.User, s.Password = values["sentinel-user"], values["sentinel-password"]
	switch {
	case u.User != nil && readFile == nil && c.Password == "":
		return invalid("a user needs a password; write redis://USER:PASSWORD@HOST, redis://:PASSWORD@HOST or password-file=FILE")
	case sentinelFile != "" && s.Password != "":
		return invalid("sentinel-password and sentinel-password-file are both given; leave one of them out")
	case s.User != "" && sentinelFile == "" && s.Password == "":
		return invalid("sentinel-user needs sentinel-password or sentinel-password-file")
	case s.MasterName == "" && s.User+s.Password+sentinelFile != "":
		return invalid("there are parameters of sentinels, but no sentinels: write redis+sentinel://HOST,HOST/SET")
	}
	if readFile != nil {
		c.Credentials, c.User = fileLogin(c.User, readFile), ""
	}
	if sentinelFile != "" {
		readFile = func() (string, error) { return storeurl.ReadPassword("sentinel-password-file", sentinelFile) }
		s.Credentials, s.User = fileLogin(s.User, readFile), ""
	}
	return nil
}

// fileLogin reads the password of user from a file for each connection, so that a new password is
// used as soon as it is in the file.
func fileLogin(user string, readFile func() (string, error)) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) {
		password, err := readFile()
		return user, password, err
	}
}
