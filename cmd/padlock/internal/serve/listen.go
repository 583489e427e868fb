package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/padlock-go/padlock/cmd/padlock/internal/texts"
)

// listener returns the socket that systemd has opened, or opens the address of --listen.
func (set *Flags) listener() (net.Listener, error) {
	at, err := inherited()
	switch {
	case err != nil:
		return nil, wrongFlags("the socket of systemd cannot be used: %v", err)
	case at != nil && set.Chosen:
		at.Close()
		return nil, wrongFlags("there is a socket of systemd (LISTEN_FDS) already; leave out --listen")
	case at != nil:
		return at, nil
	}
	_, port, err := net.SplitHostPort(set.listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return nil, wrongFlags("--listen %s: %v", texts.Show(set.listen), err)
	}
	at, err = net.Listen("tcp", set.listen)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &Error{Text: fmt.Sprintf("cannot listen on %s: %v", texts.Show(set.listen), err)}
	}
	return at, nil
}

// firstInherited is the descriptor of the first socket of systemd: see sd_listen_fds(3).
const firstInherited = 3

// inherited returns the socket that systemd has opened for this process, or nil.
func inherited() (net.Listener, error) {
	pid, n := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	if pid != strconv.Itoa(os.Getpid()) || n == "" {
		return nil, nil
	}
	if n != "1" {
		return nil, errors.New("one is needed, and there are " + n)
	}
	f := os.NewFile(firstInherited, "LISTEN_FD_3")
	defer f.Close() // the listener has a copy
	return net.FileListener(f)
}

// keyPair is a certificate with its key. It is read again when one of the files has changed, so
// that a renewed certificate needs no restart.
type keyPair struct {
	cert, key string

	mu      sync.Mutex
	pair    *tls.Certificate
	looked  time.Time
	changed [2]time.Time
}

func openKeyPair(cert, key string) (*keyPair, error) {
	if cert == "" || key == "" {
		return nil, errors.New("both are needed")
	}
	p := &keyPair{cert: cert, key: key}
	return p, p.read()
}

// read reads both files. The caller must hold p.mu, or be the only goroutine that uses p.
func (p *keyPair) read() error {
	p.changed = p.times()
	cert, err := readPEM(p.cert)
	if err != nil {
		return err
	}
	key, err := readPEM(p.key)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		p.pair = &pair
	}
	return err
}

// maxPEM is the size of the longest certificate or key.
const maxPEM = 1 << 20

func readPEM(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPEM))
}

// times returns when the files were changed. A pipe never changes, because it can be read only
// once.
func (p *keyPair) times() (changed [2]time.Time) {
	for i, name := range []string{p.cert, p.key} {
		if st, err := os.Stat(name); err == nil && st.Mode()&fs.ModeNamedPipe == 0 {
			changed[i] = st.ModTime()
		}
	}
	return changed
}

// exposed reports whether every user of this machine can read the key.
func (p *keyPair) exposed() bool {
	info, err := os.Stat(p.key)
	return err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0
}

// getCertificate returns the certificate for a new connection. If the files have changed and cannot
// be used, for example because only one of them is written yet, it returns the one that it read
// last.
func (p *keyPair) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.looked) > time.Second {
		p.looked = now
		if p.times() != p.changed {
			_ = p.read()
		}
	}
	return p.pair, nil
}

// certificateNames returns the host names of the certificate, without wildcard names.
func (p *keyPair) certificateNames() []string {
	var names []string
	if p.pair.Leaf != nil {
		for _, name := range p.pair.Leaf.DNSNames {
			if !strings.HasPrefix(name, "*") {
				names = append(names, name)
			}
		}
	}
	return names
}

// hostNames returns the names by which browsers reach the server.
func (set *Flags) hostNames(pairs *keyPair) []string {
	names := append([]string{"localhost"}, set.hosts...)
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	if pairs != nil {
		names = append(names, pairs.certificateNames()...)
	}
	return names
}
