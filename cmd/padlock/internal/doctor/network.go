package doctor

import (
	"net"
	"net/url"
	"strings"
)

// network checks the connection to a server, as the URL describes it.
func (v *visit) network() {
	if len(v.servers) == 0 && !v.encrypted { // with TLS it is a service that its settings name
		v.good("network", "a unix socket of this machine")
		return
	}
	here := local(v.servers)
	switch {
	case v.encrypted && unchecked(v.u.Query()) != "":
		v.problem("network", "TLS, but the server's certificate is not checked ("+unchecked(v.u.Query())+")",
			"an attacker on the network can read the password and grant locks that do not exist",
			checkOff[unchecked(v.u.Query())])
	case v.encrypted:
		v.good("network", "TLS, and the server's certificate is checked")
	case here:
		v.good("network", "the server is on this machine")
	default:
		v.problem("network", "no TLS to another machine",
			"an attacker on the network can read the password, release locks and grant locks that do not exist",
			"use TLS (rediss:// or tls=yes; sslmode=verify-full for PostgreSQL; tls=true for MySQL), or a network that you trust")
	}
	if _, password := v.u.User.Password(); !password && !v.u.Query().Has("password-file") && !here {
		v.problem("password", "no password for a server on another machine",
			"if the server needs no password, everybody who can reach it can release every lock",
			"give padlock a user of its own (docs/stores/redis.md), and name its password with password-file=FILE in the URL")
	}
}

// checkOff lists the parameters of a URL that switch off the check of the server's certificate. The
// value of each entry tells the user what to write instead.
var checkOff = map[string]string{
	"tls-verify=no":   "remove tls-verify=no from the URL; name your own certificate authority with ca=FILE",
	"sslmode=require": "write sslmode=verify-full; name your own certificate authority with sslrootcert=FILE",
	"tls=skip-verify": "write tls=true",
}

// unchecked returns the parameter that switches off the check of the certificate, or "".
func unchecked(query url.Values) string {
	for parameter := range checkOff {
		if name, value, _ := strings.Cut(parameter, "="); query.Get(name) == value {
			return parameter
		}
	}
	return ""
}

// local reports whether all servers are on this machine.
func local(servers []string) bool {
	for _, host := range servers {
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}
