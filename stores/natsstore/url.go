package natsstore

import (
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/padlock-go/padlock/storekit"
	"github.com/padlock-go/padlock/storekit/register"
	"github.com/padlock-go/padlock/storekit/storeurl"
)

// config returns what a URL says. It reads only the files for TLS.
func config(u *url.URL) (*storeurl.Reading[register.Option], Config, error) {
	r, c, err := read(u)
	if err != nil {
		return nil, c, err
	}
	if r.Values["tls"] == "yes" {
		t, err := r.TLS()
		if err != nil {
			return nil, c, err
		}
		c.Options = append(c.Options, nats.Secure(t))
	}
	return r, c, nil
}

// read returns what a URL says, without its files.
func read(u *url.URL) (*storeurl.Reading[register.Option], Config, error) {
	r, err := form.Read(u)
	if err != nil {
		return nil, Config{}, err
	}
	bucket, prefix, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	c := Config{Servers: strings.Split(u.Host, ","), Bucket: bucket, Prefix: prefix}
	switch r.Values["clock"] {
	case "server":
		c.ServerClock = true
	case "", "observed":
	default:
		return nil, c, storekit.Invalidf("clock: it is observed or server")
	}
	if u.Query().Has("skew") && !c.ServerClock {
		return nil, c, storekit.Invalidf("skew: it goes with clock=server")
	}
	if n := r.Values["replicas"]; n != "" && (len(n) != 1 || n < "1" || n > "5") {
		return nil, c, storekit.Invalidf("replicas: it is a number from 1 to 5")
	}
	if err := r.CheckTLS(r.Values["tls"] == "yes", "tls=yes"); err != nil {
		return nil, c, err
	}
	c.Options, err = login(r)
	return r, c, err
}

// login returns the options of NATS's client for the login of a URL.
func login(r *storeurl.Reading[register.Option]) ([]nats.Option, error) {
	user, password, err := r.Login()
	file := r.Values["creds"]
	switch {
	case err != nil:
		return nil, err
	case user != "" && file != "":
		return nil, storekit.Invalidf("creds: the URL has a login already; leave one of them out")
	case file != "":
		return []nats.Option{nats.UserCredentials(file)}, nil
	case r.Password != nil:
		return []nats.Option{nats.UserInfoHandler(func() (string, string) {
			password, _ := r.Password() // dial has looked whether there is one
			return user, password
		})}, nil
	case user != "" && password == "":
		return []nats.Option{nats.Token(user)}, nil
	case user != "":
		return []nats.Option{nats.UserInfo(user, password)}, nil
	}
	return nil, nil
}

// correctURL recognises the URLs with which NATS's own tools ask for TLS.
func correctURL(text string) string {
	for _, scheme := range []string{"tls", "natss", "nats+tls"} {
		if strings.HasPrefix(text, scheme+"://") {
			return "nats://HOST/BUCKET?tls=yes"
		}
	}
	return ""
}

func servers(u *url.URL) (addresses []string, encrypted bool) {
	r, _, err := read(u)
	if err != nil {
		return nil, false
	}
	addresses, err = storeurl.Addresses(u.Host, defaultPort)
	if err != nil {
		return nil, false
	}
	return addresses, r.Values["tls"] == "yes"
}

// at returns the URL behind a proxy, or nil if the servers tell the client other addresses.
func at(u *url.URL, address string) *url.URL {
	addresses, encrypted := servers(u)
	if len(addresses) != 1 {
		return nil
	}
	return storeurl.Behind(u, address, encrypted)
}
