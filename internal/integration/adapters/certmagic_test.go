package adapters

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/adapters/certmagiclock"
	"github.com/padlock-go/padlock/padlocktest"
	"go.uber.org/zap"
)

var (
	_ certmagic.Locker           = (*certmagiclock.Locks)(nil)
	_ certmagic.TryLocker        = (*certmagiclock.Locks)(nil)
	_ certmagic.LockLeaseRenewer = (*certmagiclock.Locks)(nil)
	// The methods of Locks are found in the storage too, although FileStorage has some of them.
	_ certmagic.LockLeaseRenewer = lockedStorage{}
	_ certmagic.TryLocker        = lockedStorage{}
)

// authority issues certificates, and notes each of them.
type authority struct{ dir string }

func (authority) IssuerKey() string { return "test" }

func (a authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if err := note(a.dir, "issued"); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: csr.DNSNames, NotBefore: time.Now(), NotAfter: time.Now().Add(90 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, csr.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return &certmagic.IssuedCertificate{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, nil
}

// obtainCertificate is a server that needs a certificate.
func obtainCertificate(p *process) error {
	storage := withLocks(&certmagic.FileStorage{Path: filepath.Join(p.dir, "certificates")}, p.locker)
	var cfg *certmagic.Config
	cache := certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil }, Logger: zap.NewNop(),
	})
	defer cache.Stop()
	cfg = certmagic.New(cache, certmagic.Config{Storage: storage, Issuers: []certmagic.Issuer{authority{p.dir}}, Logger: zap.NewNop()})
	p.say("ready")
	p.next()
	if err := cfg.ObtainCertAsync(context.Background(), "example.com"); err != nil {
		return err
	}
	if _, err := cfg.CacheManagedCertificate(context.Background(), "example.com"); err != nil {
		return err
	}
	p.say("has the certificate")
	return nil
}

// Four servers in four processes need the same certificate: one of them asks for it.
func TestOneCertificateForFourServers(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, url, dir string) {
		var servers [4]*child
		for i := range servers {
			servers[i] = start(t, "certmagic", url, dir)
		}
		for _, s := range servers {
			s.hear()
		}
		for _, s := range servers {
			s.tell("now")
		}
		for _, s := range servers {
			if got := s.hear(); got != "has the certificate" {
				t.Error(got)
			}
		}
		if issued := notes(t, dir); len(issued) != 1 {
			t.Errorf("%d certificates were issued", len(issued))
		}
	})
}

// The lock of certmagic's FileStorage is a file, and Unlock removes that file, even if another
// server made it. So a server that was paused for longer than its lease releases the lock of its
// successor. This test shows that, and that Locks do not.
func TestUnlockAfterALoss(t *testing.T) {
	t.Parallel()
	const name = "issue_cert_example.com"
	script := padlocktest.NewScript()
	machine := func() *padlock.Locker {
		l := padlock.New(script, padlock.KeepStoreOpen())
		t.Cleanup(func() { l.Close(context.Background()) })
		return l
	}
	files := t.TempDir()
	own := &certmagic.FileStorage{Path: t.TempDir()}
	for what, s := range map[string]struct {
		paused, successor, third certmagic.Locker
		lose                     func() error
		exclusive                bool
	}{
		"upstream": {own, own, own, func() error { return own.Unlock(t.Context(), name) }, false},
		"padlock": {
			withLocks(&certmagic.FileStorage{Path: files}, machine()),
			withLocks(&certmagic.FileStorage{Path: files}, machine()),
			withLocks(&certmagic.FileStorage{Path: files}, machine()),
			func() error { script.Lose(certmagiclock.Prefix + name); return nil }, true,
		},
	} {
		for _, err := range []error{s.paused.Lock(t.Context(), name), s.lose(), s.successor.Lock(t.Context(), name), s.paused.Unlock(t.Context(), name)} {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		ok, err := s.third.(certmagic.TryLocker).TryLock(t.Context(), name)
		if err != nil || ok == s.exclusive {
			t.Errorf("%s: a third server takes the lock of the successor: %v, %v", what, ok, err)
		}
	}
}

// A server loses its lock while it waits for its next try. That try takes the lock again.
func TestALossBetweenTwoTries(t *testing.T) {
	t.Parallel()
	l, script := padlocktest.New(t)
	s := withLocks(&certmagic.FileStorage{Path: t.TempDir()}, l)
	if err := s.Lock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	if err := s.(certmagic.LockLeaseRenewer).RenewLockLease(t.Context(), "x", 30*24*time.Hour); err != nil {
		t.Error(err)
	}
	script.Lose(certmagiclock.Prefix + "x")
	if err := s.(certmagic.LockLeaseRenewer).RenewLockLease(t.Context(), "x", 30*24*time.Hour); err != nil {
		t.Error(err)
	}
	if ok, err := s.(certmagic.TryLocker).TryLock(t.Context(), "x"); ok || err != nil {
		t.Errorf("the lock was not taken again: %v, %v", ok, err)
	}
}
