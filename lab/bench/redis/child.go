//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/padlock-go/padlock/lab/bench/measure"
	"github.com/padlock-go/padlock/lab/bench/trial"
)

// obey is the main function of a process of a trial.
func obey(o order) error {
	p, err := trial.MapPage(os.NewFile(3, "page"))
	if err != nil {
		return err
	}
	admin, err := site{o.Addr, new(trial.Counter)}.resp()
	if err != nil {
		return err
	}
	all := peers(&rig{o.Addr, admin})
	i := slices.IndexFunc(all, func(p trial.Peer) bool { return p.Name == o.Row })
	if i < 0 {
		return errors.New("there is no row " + o.Row)
	}
	_, locks, err := all[i].Start(&p.Sent[o.Party], o.Name)
	if err != nil {
		return err
	}
	if o.Wait {
		return waitInVain(locks[0])
	}
	t, err := workAtGate(p, locks[0], int32(o.Party))
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(t))
}

// workAtGate waits until all processes may begin, and then works.
func workAtGate(p *trial.Page, l trial.Lock, id int32) (trial.Tally, error) {
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return trial.Tally{}, err
	}
	before := measure.Used()
	t := p.Work(l, id)
	t.CPU = measure.Used().CPU - before.CPU
	return t, nil
}

// waitInVain waits for a lock that another process holds, until stdin ends.
func waitInVain(l trial.Lock) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := l(ctx)
		failed <- err
	}()
	fmt.Println("ready")
	_, err := io.Copy(io.Discard, os.Stdin)
	select {
	case bad := <-failed:
		return errors.Join(err, fmt.Errorf("it did not wait to the end: %v", bad))
	default:
	}
	fmt.Println("{}")
	return err
}
