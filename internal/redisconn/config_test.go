package redisconn

import (
	"crypto/tls"
	"net"
	"testing"
)

// TestNewCopies changes what New was given.
func TestNewCopies(t *testing.T) {
	c := Config{Addrs: []string{"h:1"}, TLS: &tls.Config{ServerName: "h"}}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	c.Addrs[0], c.TLS.ServerName = "other:1", "other"
	if s.Addrs[0] != "h:1" || s.TLS.ServerName != "h" {
		t.Errorf("the server is %+v", s)
	}
}

// TestLoginOfAnotherConnection asks for the login of an address that Dial did not return.
func TestLoginOfAnotherConnection(t *testing.T) {
	if _, _, err := Login(&net.TCPAddr{}); err == nil {
		t.Error("there is no error")
	}
}
