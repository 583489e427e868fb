package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open"
)

// patience is how long a test waits for an event that must come.
const patience = time.Minute

// inMemory returns a store in memory, which is closed at the end of the test.
func inMemory(t *testing.T) padlock.Store {
	t.Helper()
	s, err := open.Store(t.Context(), "memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// certificate writes a certificate for a host name and its key.
func certificate(t *testing.T, dir, host string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, host+".crt"), filepath.Join(dir, host+".key")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// A renewed certificate is used without a restart. One that cannot be read changes nothing.
func TestServeRenewsCertificate(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "a.example")
	pair, err := openKeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if names := pair.certificateNames(); len(names) != 1 || names[0] != "a.example" {
		t.Errorf("the names are %v", names)
	}
	first, err := pair.getCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	change := func(write func()) {
		t.Helper()
		write()
		later := time.Now().Add(time.Duration(len(pair.changed)) * time.Minute)
		if err := os.Chtimes(cert, later, later); err != nil {
			t.Fatal(err)
		}
		pair.looked = time.Time{}
	}
	change(func() {
		if err := os.WriteFile(cert, []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if same, err := pair.getCertificate(nil); err != nil || same != first {
		t.Errorf("after a bad file: %v, %v", same == first, err)
	}
	change(func() { certificate(t, dir, "a.example") })
	if renewed, err := pair.getCertificate(nil); err != nil || renewed == first {
		t.Errorf("after a renewal it is still the old certificate: %v", err)
	}
}
