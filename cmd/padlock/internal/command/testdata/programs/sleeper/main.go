// Command sleeper is the programs sleeper, catcher and refuse, which scripts run.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "catcher":
		catcher()
	case "refuse":
		refuse()
	default:
		sleeper()
	}
}

// sleeper FILE writes its process id and that of its parent into FILE and
// sleeps until a signal ends it, or for ten minutes.
func sleeper() {
	writePids(os.Args[1])
	<-time.After(10 * time.Minute)
}

// catcher FILE CODE does the same, but catches the signals that end programs and
// exits with CODE when one comes; without CODE it ignores them.
func catcher() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	writePids(os.Args[1])
	for deadline := time.After(10 * time.Minute); ; {
		select {
		case s := <-c:
			fmt.Println("caught", s)
			if len(os.Args) > 2 {
				code, _ := strconv.Atoi(os.Args[2])
				os.Exit(code)
			}
		case <-deadline:
			return
		}
	}
}

// writePids writes the whole file at once, because others wait for it.
func writePids(file string) {
	text := fmt.Sprintln(os.Getpid(), os.Getppid())
	if os.WriteFile(file+".new", []byte(text), 0o600) != nil || os.Rename(file+".new", file) != nil {
		os.Exit(99)
	}
}
