package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// RedisOptions are the settings of a Redis server. The zero value is a plain server that keeps
// nothing on disk.
type RedisOptions struct {
	Persist  bool     // every write is on disk before its reply, so it survives Kill and Restart(true)
	Socket   bool     // listens on a unix socket too; see RedisSocket
	Cluster  bool     // a cluster of one node that owns all slots; it is ready after two seconds
	Password string   // password of the user "default"
	ACL      string   // text of an ACL file; it overrides Password
	TLS      *TLS     // accepts only TLS
	Args     []string // further arguments of redis-server; they override the arguments of this package
	Env      []string // added to the server's environment
}

// Redis starts a Redis server. Its URL contains the password, if there is one. With TLS its scheme
// is rediss.
func Redis(t testing.TB, o RedisOptions) *Server {
	t.Helper()
	return Start(t, redisSpec(o))
}

// RedisSocket returns the path of the unix socket of a Redis that was started with Socket.
func RedisSocket(s *Server) string { return s.place.Path("redis.sock") }

func redisSpec(o RedisOptions) Spec {
	spec := Spec{
		Name:    "redis",
		Package: "redis-server",
		Binary:  []string{"redis-server", "valkey-server"},
		Args:    o.args,
		Ready:   o.ready,
		Prepare: o.prepare,
		URL:     o.url,
		Env:     o.Env,
	}
	if o.Cluster {
		spec.ExtraPorts = 1 // for the cluster bus
	}
	return spec
}

func (o RedisOptions) args(p Place) []string {
	args := []string{"--bind", "127.0.0.1", "--dir", p.Dir, "--save", ""}
	args = append(args, o.portArgs(p)...)
	if o.Persist {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if o.Socket {
		args = append(args, "--unixsocket", p.Path("redis.sock"), "--unixsocketperm", "700")
	}
	if o.Cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
			"--cluster-port", strconv.Itoa(p.Extra[0]))
	}
	if o.Password != "" {
		args = append(args, "--requirepass", o.Password)
	}
	if o.ACL != "" {
		args = append(args, "--aclfile", p.Path("users.acl"))
	}
	return append(args, o.Args...)
}

func (o RedisOptions) portArgs(p Place) []string {
	port := strconv.Itoa(p.Port)
	if o.TLS == nil {
		return []string{"--port", port}
	}
	return []string{"--port", "0", "--tls-port", port, "--tls-cluster", "yes", "--tls-auth-clients", "no",
		"--tls-cert-file", p.Path("cert.pem"), "--tls-key-file", p.Path("key.pem"), "--tls-ca-cert-file", p.Path("ca.pem")}
}

// prepare writes the files that the server's arguments name. For a cluster it also writes the file
// that assigns the slots to the nodes, so no commands are needed for that.
func (o RedisOptions) prepare(_ context.Context, p Place) error {
	files := map[string]string{}
	if o.ACL != "" {
		files["users.acl"] = o.ACL
	}
	if o.Cluster {
		files["nodes.conf"] = ownSlots(p, 1, "0-16383")
	}
	if o.TLS != nil {
		files["ca.pem"], files["cert.pem"], files["key.pem"] = string(o.TLS.CA), string(o.TLS.Cert), string(o.TLS.Key)
	}
	for name, text := range files {
		if err := p.Write(name, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (o RedisOptions) url(p Place) string {
	u := url.URL{Scheme: "redis", Host: p.Addr()}
	if o.TLS != nil {
		u.Scheme = "rediss"
	}
	if o.Password != "" {
		u.User = url.UserPassword("", o.Password)
	}
	return u.String()
}

// ready tries to read a key. A PING is not enough, because a cluster that is down still answers it.
// If the server refuses the read because the user has no right to read the key, the server is ready
// too.
func (o RedisOptions) ready(ctx context.Context, p Place) error {
	conn, err := o.dial(ctx, p)
	if err != nil {
		return err
	}
	defer conn.Close()
	if o.Password != "" && o.ACL == "" {
		if reply, err := askServer(conn, "AUTH", o.Password); err != nil || reply != "+OK" {
			return fmt.Errorf("AUTH: %s: %w", reply, err)
		}
	}
	reply, err := askServer(conn, "EXISTS", "padlock-ready")
	if err != nil {
		return err
	}
	if strings.HasPrefix(reply, ":") || strings.HasPrefix(reply, "-NOAUTH") || strings.HasPrefix(reply, "-NOPERM") {
		return nil
	}
	return fmt.Errorf("it says %q", reply)
}

func (o RedisOptions) dial(ctx context.Context, p Place) (net.Conn, error) {
	conn, err := dial(ctx, p.Addr(), time.Second)
	if err != nil || o.TLS == nil {
		return conn, err
	}
	config := o.TLS.Client()
	config.ServerName = "127.0.0.1"
	return tls.Client(conn, config), nil
}

// askServer sends a command in Redis' protocol, RESP. It returns the first line of the reply, which
// begins with the reply's type ("+OK", ":1", "-ERR …").
func askServer(conn net.Conn, args ...string) (string, error) {
	if _, err := conn.Write(RedisCommand(args...)); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}

// AskRedis sends a command to a Redis without a password, on a connection of its own. It returns the
// text of the reply, which is "" for a null.
func AskRedis(ctx context.Context, addr string, args ...string) (string, error) {
	conn, err := dial(ctx, addr, 15*time.Second) // long enough for a busy machine
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write(RedisCommand(args...)); err != nil {
		return "", err
	}
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	line = strings.TrimRight(line, "\r\n")
	switch {
	case err != nil:
		return "", err
	case strings.HasPrefix(line, "-"):
		return "", fmt.Errorf("redis says %q", line)
	case !strings.HasPrefix(line, "$"):
		return line[1:], nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 {
		return "", err
	}
	text := make([]byte, n)
	_, err = io.ReadFull(r, text)
	return string(text), err
}

// RedisCommand is a command in RESP.
func RedisCommand(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// ownSlots returns the file that assigns slots to a node that knows no other node. It is written
// before the node starts, so no commands are needed for that.
func ownSlots(p Place, epoch int, slots string) string {
	return fmt.Sprintf("%040x 127.0.0.1:%d@%d myself,master - 0 0 %d connected %s\nvars currentEpoch %d lastVoteEpoch 0\n",
		p.Port, p.Port, p.Extra[0], epoch, slots, epoch)
}
