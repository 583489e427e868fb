// Terraform-backend is an HTTP backend for Terraform and OpenTofu. It keeps states in a directory,
// with a lock for each. Any number of these servers on one machine may serve the same directory.
//
//	go run ./examples/terraform-backend
//
// In the configuration of Terraform:
//
//	terraform {
//	  backend "http" {
//	    address        = "http://localhost:8080/shop"
//	    lock_address   = "http://localhost:8080/shop"
//	    unlock_address = "http://localhost:8080/shop"
//	  }
//	}
//
// Run `terraform apply` twice at the same time: the second one fails, and its message has the ID of
// the first one. `terraform force-unlock ID` takes the lock away from a run that died. States hold
// secrets: anybody who reaches this server can read them, so put a login and TLS before it in real
// use.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/stores/filestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir := cmp.Or(os.Getenv("STATES"), filepath.Join(os.TempDir(), "terraform-states")) // a lasting directory in real use
	b, err := open(dir)
	if err != nil {
		return err
	}
	srv := &http.Server{Addr: cmp.Or(os.Getenv("LISTEN"), "localhost:8080"), Handler: b.routes(), ReadTimeout: time.Minute}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		defer cancel()
		srv.Shutdown(ctx)
		b.locker.Close(ctx) // the locks of Terraform stay: they were exported
	})
	log.Printf("serving the states in %s on http://%s", dir, srv.Addr)
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// open returns the backend of a directory.
func open(dir string) (*backend, error) {
	store, err := filestore.Open(filepath.Join(dir, "locks"))
	if err != nil {
		return nil, err
	}
	return &backend{padlock.New(store), dir, 12 * time.Hour}, nil
}
