package doctor

import (
	"net"
	"strings"
)

// network looks at the way to a server, as the URL says it.
func (v *visit) network() {
	if len(v.servers) == 0 {
		v.good("network", "a socket of this machine")
		return
	}
	here := local(v.servers)
	switch {
	case v.encrypted && v.u.Query().Get("tls-verify") == "no":
		v.problem("network", "TLS, but nobody's certificate is checked (tls-verify=no)",
			"whoever stands in between can read the password and answer that a lock is yours",
			"take tls-verify=no out of the URL; a certificate authority of your own is named by ca=FILE")
	case v.encrypted:
		v.good("network", "TLS, and the server's certificate is checked")
	case here:
		v.good("network", "the server is on this machine")
	default:
		v.problem("network", "no TLS, to another machine",
			"whoever is on the way can read the password, release locks and answer that a lock is yours",
			"use rediss:// or tls=yes, or a network of which you trust everybody")
	}
	if _, password := v.u.User.Password(); !password && !v.u.Query().Has("password-file") && !here {
		v.problem("password", "none is given, to a server on another machine",
			"if it asks for none, whoever reaches the server can release every lock",
			"give padlock a user of its own (docs/stores/redis.md) and set its password in the URL of PADLOCK_STORE")
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
