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
	"time"

	"github.com/padlock-go/padlock/lab/bench/measure"
)

// playChild is called at the start of the program. If the environment contains instructions from a
// parent process, playChild follows them and ends this process. Otherwise it returns at once.
func playChild() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	if err := obey(text); err != nil {
		fmt.Fprintln(os.Stderr, "a process of the trial:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	p, err := mapPage(os.NewFile(3, "page"))
	if err != nil {
		return err
	}
	rows := contestants()
	i := slices.IndexFunc(rows, func(c contestant) bool { return c.name == o.Row })
	if i < 0 {
		return errors.New("there is no row " + o.Row)
	}
	admin, err := site{o.Addr, new(counter)}.resp()
	if err != nil {
		return err
	}
	warm := fmt.Sprint(o.Name, ":", o.Party)
	opened, err := rows[i].openFor(&rig{o.Addr, admin}, site{o.Addr, &p.sent[o.Party]}, warm, o.Name)
	if err != nil {
		return err
	}
	if o.Wait {
		return waitInVain(opened.lockers[0])
	}
	t, err := workAtGate(p, opened.lockers[0], int32(o.Party))
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(t))
}

// workAtGate waits until all processes may begin, and then works.
func workAtGate(p *page, l Locker, id int32) (tally, error) {
	fmt.Println("ready")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return tally{}, err
	}
	before := measure.Used()
	time.Sleep(time.Duration(p.start.Load() - now()))
	t := p.work(l, id)
	t.CPU = measure.Used().CPU - before.CPU
	return t, nil
}

// waitInVain waits for a lock that another process holds, until stdin ends.
func waitInVain(l Locker) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := l.Lock(ctx)
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
