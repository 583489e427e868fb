package doctor

import (
	"net"
	"strings"
)

// network checks the connection to a server, as the URL describes it.
func (v *visit) network() {
	if len(v.servers) == 0 {
		v.good("network", "a unix socket of this machine")
		return
	}
	here := local(v.servers)
	switch {
	case v.encrypted && v.u.Query().Get("tls-verify") == "no":
		v.problem("network", "TLS, but the server's certificate is not checked (tls-verify=no)",
			"an attacker on the network can read the password and grant locks that do not exist",
			"remove tls-verify=no from the URL; name your own certificate authority with ca=FILE")
	case v.encrypted:
		v.good("network", "TLS, and the server's certificate is checked")
	case here:
		v.good("network", "the server is on this machine")
	default:
		v.problem("network", "no TLS to another machine",
			"an attacker on the network can read the password, release locks and grant locks that do not exist",
			"use TLS (rediss:// or tls=yes), or a network that you trust")
	}
	if _, password := v.u.User.Password(); !password && !v.u.Query().Has("password-file") && !here {
		v.problem("password", "no password for a server on another machine",
			"if the server needs no password, everybody who can reach it can release every lock",
			"give padlock a user of its own (docs/stores/redis.md), and name its password with password-file=FILE in the URL")
	}
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
