// Command entered counts the functions and files of padlock that one free Acquire and Release
// enters, which is how many places a reader has to visit. It is run in the folder lab:
//
//	go run ./entered redis://127.0.0.1:6379
//
// It builds itself again with coverage counters, which it sets to zero just before the Acquire. A
// function of a background goroutine that happens to run at that moment counts too.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/coverage"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/open/all"
)

const module = "github.com/padlock-go/padlock"

// dirVariable names the folder for the counters. It is set in the second run, with counters.
const dirVariable = "PADLOCK_ENTERED"

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: entered URL")
	}
	err := error(nil)
	if dir := os.Getenv(dirVariable); dir != "" {
		err = lockOnce(os.Args[1], dir)
	} else {
		err = count(os.Args[1])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// lockOnce takes and releases one lock, and writes the counters of that to dir.
func lockOnce(url, dir string) error {
	ctx := context.Background()
	store, err := all.Store(ctx, url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer l.Close(ctx)
	pair := func(name string) error {
		k, err := l.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return k.Release()
	}
	for i := range 3 { // the first locks connect, and load scripts
		if err := pair(fmt.Sprint("entered:before:", i)); err != nil {
			return err
		}
	}
	<-time.After(300 * time.Millisecond) // then background work is done
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := pair("entered:now"); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}

// count builds and runs this program with counters, and prints what it has entered.
func count(url string) error {
	dir, err := os.MkdirTemp("", "entered")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, counters, atExit := filepath.Join(dir, "entered"), filepath.Join(dir, "counters"), filepath.Join(dir, "exit")
	if err := errors.Join(os.Mkdir(counters, 0o700), os.Mkdir(atExit, 0o700)); err != nil {
		return err
	}
	packages := []string{module, module + "/driver", module + "/storekit/...", module + "/stores/...", module + "/internal/...", module + "/lab/entered"}
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg="+strings.Join(packages, ","), "-o", program, "./entered")
	second := exec.Command(program, url)
	second.Env = append(os.Environ(), dirVariable+"="+counters, "GOCOVERDIR="+atExit)
	for _, c := range []*exec.Cmd{build, second} {
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", c.Args, err, out)
		}
	}
	out, err := exec.Command("go", "tool", "covdata", "func", "-i="+counters).Output()
	if err != nil {
		return err
	}
	show(out)
	return nil
}

// show prints the functions with a part that was run, by file, and their number. Each line of out
// has a file with a line number, a function, and how much of the function was run.
func show(out []byte) {
	functions := map[string][]string{}
	n := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 3 || f[2] == "0.0%" || f[0] == "total" || strings.Contains(f[0], "/lab/") {
			continue
		}
		file, _, _ := strings.Cut(strings.TrimPrefix(f[0], module+"/"), ":")
		functions[file] = append(functions[file], f[1])
		n++
	}
	files := make([]string, 0, len(functions))
	for file := range functions {
		files = append(files, file)
	}
	slices.Sort(files)
	for _, file := range files {
		fmt.Printf("%s: %s\n", file, strings.Join(functions[file], ", "))
	}
	fmt.Printf("%d functions in %d files\n", n, len(files))
}
