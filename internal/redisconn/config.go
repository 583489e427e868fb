// Package redisconn reads the address and the credentials of a Redis from a URL, and makes
// connections to it. redisstore and redissession have the same settings and URLs and use this
// package. It does not import rueidis, the client of both.
//
// Both are modules with versions of their own, so a program may build an older redisstore with a
// newer padlock. Therefore exported names of this package stay as they are, and new ones may be
// added. A change that breaks an older module goes into a new package.
package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// Config has the fields of redisstore.Config, which documents them, and User and Password, which a
// URL has. redisstore does not use this type in its API, because go doc does not show the fields of
// a type in an internal package. redisstore and redissession name each field when they make a
// Config, so they compile with a later version that has more fields.
type Config struct {
	Addrs          []string
	Socket         string
	Cluster        bool
	Sentinel       Sentinel
	User, Password string
	Credentials    func(ctx context.Context) (user, password string, err error)
	DB             int
	ClientName     string
	TLS            *tls.Config
	Dial           func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Sentinel has the fields of redisstore.Sentinel.
type Sentinel struct {
	MasterName     string
	User, Password string
	Credentials    func(ctx context.Context) (user, password string, err error)
}

// Server is a Config that was checked, and that the caller cannot change. User and Password are
// empty in it: it keeps each login in Credentials, so that nothing which prints a store shows a
// password.
type Server struct {
	Config

	leaving sync.Mutex // is held while connections end
	mu      sync.Mutex
	conns   map[*conn]struct{} // the connections that the client has
}

// New checks c. The error is driver.ErrInvalid.
func New(c Config) (*Server, error) {
	s := &Server{Config: c}
	s.Addrs, s.TLS = slices.Clone(s.Addrs), s.TLS.Clone()
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Credentials == nil {
		s.Credentials = storeurl.Login(s.User, s.Password)
	}
	if w := &s.Sentinel; w.Credentials == nil {
		w.Credentials = storeurl.Login(w.User, w.Password)
	}
	s.User, s.Password, s.Sentinel.User, s.Sentinel.Password = "", "", "", ""
	return s, nil
}

// Addresses returns the addresses to which the client connects first.
func (s *Server) Addresses() []string {
	if s.Socket != "" {
		return []string{s.Socket}
	}
	return s.Addrs
}

// Single reports whether the client uses one server. It returns false for a cluster, or if
// sentinels name the server.
func (s *Server) Single() bool { return !s.Cluster && s.Sentinel.MasterName == "" }

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{driver.ErrInvalid}, args...)...)
}

// check refuses settings that contradict each other.
func (s *Server) check() error {
	if err := s.checkPlace(); err != nil {
		return err
	}
	if err := checkLogin("", s.User, s.Password, s.Credentials != nil); err != nil {
		return err
	}
	watch := &s.Sentinel
	if watch.MasterName == "" && (watch.User != "" || watch.Password != "" || watch.Credentials != nil) {
		return invalid("Sentinel: there is a login but no MasterName; set it to the name that the sentinels have for the primary")
	}
	if err := checkLogin("Sentinel.", watch.User, watch.Password, watch.Credentials != nil); err != nil {
		return err
	}
	for _, r := range s.ClientName {
		if r < '!' || r > '~' {
			return invalid("ClientName: Redis allows only visible ASCII characters and no spaces")
		}
	}
	return nil
}

func (s *Server) checkPlace() error {
	sentinel := s.Sentinel.MasterName != ""
	switch {
	case len(s.Addrs) == 0 && s.Socket == "":
		return invalid("there is no address; set Addrs or Socket")
	case len(s.Addrs) > 0 && s.Socket != "":
		return invalid("Addrs and Socket are both set; set one of them")
	case s.Socket != "" && (s.Cluster || sentinel):
		return invalid("Socket: a cluster and sentinels are reached by Addrs")
	case s.Socket != "" && s.TLS != nil:
		return invalid("Socket: Redis has no TLS on a Unix socket; leave TLS out, or set Addrs")
	case s.Cluster && sentinel:
		return invalid("Cluster and Sentinel are both set; a cluster does without sentinels")
	case len(s.Addrs) > 1 && !s.Cluster && !sentinel:
		return invalid("Addrs has %d addresses, but neither Cluster nor Sentinel is set; set one of them, or give one address", len(s.Addrs))
	case s.DB < 0 || s.Cluster && s.DB != 0:
		return invalid("DB: it is %d; allowed are numbers from 0, and in a cluster only 0", s.DB)
	}
	for _, addr := range s.Addrs {
		_, port, err := net.SplitHostPort(addr)
		if err != nil || port == "" {
			return invalid("Addrs: %q is not of the form HOST:PORT", addr)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err == nil && n == 0 || errors.Is(err, strconv.ErrRange) {
			return invalid("the port in the address %q is not a number from 1 to 65535", addr)
		}
	}
	return nil
}

func checkLogin(where, user, password string, asked bool) error {
	switch {
	case asked && (user != "" || password != ""):
		return invalid("%sCredentials is set together with User or Password; set one or the other", where)
	case user != "" && password == "":
		return invalid("%sUser is set without Password or Credentials; for a user without a password any password will do", where)
	}
	return nil
}

// login returns the credentials for a new connection.
func (s *Server) login(ctx context.Context, sentinel bool) (user, password string, err error) {
	ask := s.Credentials
	if sentinel {
		ask = s.Sentinel.Credentials
	}
	if ask == nil {
		return "", "", nil
	}
	return ask(ctx)
}
