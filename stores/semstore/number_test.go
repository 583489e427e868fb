//go:build linux

package semstore

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// numberScript calls PHP's functions for semaphores as a program without Symfony does. The same
// object is used again and again, because a release does not remove the semaphore.
const numberScript = `
while (($line = fgets(STDIN)) !== false) {
    [$command, $key] = explode(' ', rtrim($line, "\n"), 2);
    $key = (int) base64_decode($key);
    $sem = $sems[$key] ??= sem_get($key);
    echo match ($command) {
        'acquire' => sem_acquire($sem, true) ? 'got it' : 'held',
        'wait' => sem_acquire($sem) ? 'got it' : 'failed',
        'release' => sem_release($sem) ? 'released' : 'failed',
    }, "\n";
}
`

// numberPHP starts a PHP that calls sem_get.
func numberPHP(t testing.TB) *child {
	t.Helper()
	path, err := exec.LookPath("php")
	if err == nil {
		err = exec.Command(path, "-r", `exit(extension_loaded("sysvsem") ? 0 : 1);`).Run()
	}
	if err != nil {
		missing(t, "php with sysvsem", err)
	}
	return start(t, exec.Command(path, "-r", numberScript))
}

// freeNumber returns a number that no other run of the tests uses. n is below 16. The semaphore is
// removed after the test.
func freeNumber(t testing.TB, n int) string {
	t.Helper()
	key := 0x50000000 | os.Getpid()<<4 | n
	t.Cleanup(func() {
		if set, err := find(int32(key), false); err == nil {
			_ = remove(set)
		}
	})
	return strconv.Itoa(key)
}

// PHP and Go exclude each other and wait for each other, without Symfony. PHP keeps its semaphore
// open all the time.
func TestNumbers(t *testing.T) {
	s, p, name := open(t, NoHash), numberPHP(t), freeNumber(t, 0)
	p.want("acquire", name, "got it")
	p.want("release", name, "released")
	for range 3 {
		take(t, s, request(name, "go"))
		p.want("acquire", name, "held")
		p.send("wait", name)
		waits(t, s, name, 1)
		release(t, s, name, "go", driver.OutcomeReleased)
		p.expect("got it")
		if held := refused(t, s, request(name, "go")); len(held.Holds) != 1 || held.Holds[0].PID != p.cmd.Process.Pid || !held.Foreign() {
			t.Errorf("PHP is process %d; held by %+v", p.cmd.Process.Pid, held.Holds)
		}
		got := waiting(patience(t), s, request(name, "go"))
		waits(t, s, name, 1)
		p.want("release", name, "released")
		if g, err := got(); err != nil || g.TTL == 0 {
			t.Fatalf("Wait: %+v, %v", g, err)
		}
		take(t, s, request(name, "go"))
		p.want("acquire", name, "held")
		release(t, s, name, "go", driver.OutcomeReleased)
	}
	p.want("acquire", name, "got it")
	p.kill()
	take(t, s, request(name, "go"))
}

// A semaphore with several places is no lock, and is refused.
func TestNumberWithPlaces(t *testing.T) {
	s, name := open(t, NoHash), freeNumber(t, 1)
	set, err := s.join(NoHash.key(name), 0, func() error { return nil })
	if err == nil {
		err = setValue(set, semLock, 3) // as in sem_get($key, 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(patience(t), request(name, "us")); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "max_acquire") {
		t.Errorf("Acquire: %v", err)
	}
	if users, err := value(set, semUsers); users != 1 || err != nil {
		t.Errorf("%d users are left (%v), want 1", users, err)
	}
}

// With NoHash a name is a number in its usual form, and not 0. Every other name is refused, so that
// no program believes that it shares such a lock.
func TestNoNumber(t *testing.T) {
	s := open(t, NoHash)
	for _, name := range []string{"job", "0", "01", "+1", "-0", " 1", "1.0", "0x1", "2147483648", "-2147483649"} {
		_, acquired := s.Acquire(patience(t), request(name, "us"))
		_, waited := s.Wait(patience(t), request(name, "us"), true)
		_, inspected := s.Inspect(patience(t), name)
		for what, err := range map[string]error{"Acquire": acquired, "Wait": waited, "Inspect": inspected} {
			if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "hash=none") {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{"1", "-2147483648", "2147483647"} {
		if at, err := s.Location(name); at != name || err != nil {
			t.Errorf("Location of %s: %s, %v", name, at, err)
		}
	}
}
