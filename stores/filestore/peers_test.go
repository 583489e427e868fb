//go:build linux

package filestore

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

// tool returns the path of a program that these tests are about. `make test`
// installs it.
func tool(t testing.TB, name, needs string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil && needs != "" {
		_, err = os.Stat(needs)
	}
	switch {
	case err == nil:
		return path
	case os.Getenv("CI") == "true":
		t.Fatalf("%s is missing, and under CI it may not be: %v", name, err)
	default:
		t.Skipf("%s is missing (%v): run make test once, which installs it", name, err)
	}
	return ""
}

// peer is a program that does not use padlock. It takes and frees locks when it gets commands.
type peer struct {
	*child
}

// say sends a command and returns the answer.
func (p *peer) say(command string) string {
	p.t.Helper()
	if _, err := p.in.Write([]byte(command + "\n")); err != nil {
		p.t.Fatal(err)
	}
	return p.expect("")
}

// want sends a command and checks the answer.
func (p *peer) want(command, answer string) {
	p.t.Helper()
	if got := p.say(command); got != answer {
		p.t.Fatalf("%s: %q, want %q", command, got, answer)
	}
}

const phpScript = `
require '/usr/share/php/Symfony/Component/Lock/autoload.php';
$factory = new Symfony\Component\Lock\LockFactory(new Symfony\Component\Lock\Store\FlockStore($argv[1]));
$locks = [];
while (($line = fgets(STDIN)) !== false) {
    [$command, $name] = explode(' ', rtrim($line, "\n"), 2);
    if ($command == 'path') {
        $name = base64_decode($name);
        $lock = $factory->createLock($name);
        $lock->acquire();
        $files = array_diff(scandir($argv[1]), ['.', '..']);
        $lock->release();
        array_map(fn ($f) => unlink($argv[1].'/'.$f), $files);
        echo implode(' ', $files), "\n";
        continue;
    }
    $lock = $locks[$name] ??= $factory->createLock($name);
    try {
        $answer = match ($command) {
            'acquire' => $lock->acquire() ? 'got it' : 'held',
            'wait' => $lock->acquire(true) ? 'got it' : 'held',
            'read' => $lock->acquireRead() ? 'got it' : 'held',
            'release' => $lock->release() ?? 'released',
        };
    } catch (Throwable $e) {
        $answer = get_class($e).': '.$e->getMessage();
    }
    if ($answer == 'held') {
        unset($locks[$name]);
    }
    echo $answer, "\n";
}
`

func php(t testing.TB, dir string) *peer {
	t.Helper()
	path := tool(t, "php", "/usr/share/php/Symfony/Component/Lock/autoload.php")
	return &peer{start(t, "", dir, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = path, []string{"php", "-r", phpScript, dir}
	})}
}

// flock(1) reads no commands. So a shell reads them, and runs flock(1) to lock a descriptor of the
// shell.
const flockScript = `
while read command name; do
	case $command in
	acquire) exec 9>>"$1/$name"; flock -n 9 && echo got it || { exec 9>&-; echo held; } ;;
	read) exec 9>>"$1/$name"; flock -n -s 9 && echo got it || { exec 9>&-; echo held; } ;;
	wait) exec 9>>"$1/$name"; flock 9; echo got it ;;
	release) exec 9>&-; echo released ;;
	esac
done
`

func flock1(t testing.TB, dir string) *peer {
	t.Helper()
	tool(t, "flock", "")
	return &peer{start(t, "", dir, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", flockScript, "sh", dir}
	})}
}

// peers are the programs that share locks with padlock. The field name is a function: it returns
// the name by which the program knows a lock.
var peers = map[string]struct {
	start func(testing.TB, string) *peer
	name  func(string) string
}{
	"php":   {php, func(name string) string { return name }},
	"flock": {flock1, fileName},
}

func TestPeersExcludeEachOther(t *testing.T) {
	t.Parallel()
	const name = "report/42:daily run"
	for what, p := range peers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			peer, theirs := p.start(t, s.Dir()), " "+p.name(name)
			take(t, s, request(name, "us"))
			peer.want("acquire"+theirs, "held")
			peer.want("read"+theirs, "held")
			release(t, s, name, "us", driver.OutcomeReleased)
			peer.want("acquire"+theirs, "got it")
			foreignHolder(t, s, name, false)
			refused(t, s, shared(name, "us"))
			peer.want("release"+theirs, "released")

			take(t, s, shared(name, "us"))
			peer.want("acquire"+theirs, "held")
			peer.want("read"+theirs, "got it")
			refused(t, s, request(name, "writer"))
			release(t, s, name, "us", driver.OutcomeReleased)
			foreignHolder(t, s, name, true)
			take(t, s, shared(name, "us again"))
			peer.want("release"+theirs, "released")
		})
	}
}

// foreignHolder checks that a refused try reports a foreign holder.
func foreignHolder(t testing.TB, s *Store, name string, isShared bool) {
	t.Helper()
	h := refused(t, s, request(name, "us"))
	state := inspect(t, s, name)
	for _, holds := range [][]driver.Hold{h.Holds, state.Holds} {
		if len(holds) != 1 || !holds[0].Foreign || holds[0].Shared != isShared || holds[0].PID == 0 || holds[0].Label != "" {
			t.Errorf("held by %+v", holds)
		}
	}
}

// A peer waits in the kernel for padlock's lock, and padlock waits for the peer's lock.
func TestPeersWaitForEachOther(t *testing.T) {
	t.Parallel()
	for what, p := range peers {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := open(t, t.TempDir())
			peer, theirs := p.start(t, s.Dir()), " "+p.name("job")
			peer.want("acquire"+theirs, "got it")
			w := wait(t, s, request("job", "us"))
			s.waits(t, "job")
			peer.want("release"+theirs, "released")
			if g := w.get(t); g.Fence == 0 {
				t.Error("nothing was handed over")
			}
			take(t, s, request("job", "us"))
			if _, err := peer.in.Write([]byte("wait" + theirs + "\n")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the peer waits in the kernel", func() bool { return inKernelQueue(t, s, "job") })
			release(t, s, "job", "us", driver.OutcomeReleased)
			peer.expect("got it")
		})
	}
}

// inKernelQueue reports whether the kernel lists a process that waits for the lock.
func inKernelQueue(t testing.TB, s *Store, name string) bool {
	t.Helper()
	st, err := os.Stat(pathOf(s, name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "->") && strings.Contains(line, fmt.Sprintf(":%d ", st.Sys().(*syscall.Stat_t).Ino)) {
			return true
		}
	}
	return false
}

// PHP makes the same file for a name as padlock. padlock can use a file that PHP has left.
func TestPHPNamesFilesAsWeDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := php(t, dir)
	for _, name := range []string{
		"user:42", "é", "slash?/hash", "report/42:daily run", "../../etc", "a\x00b", "\xff\xfe", "-", "...", strings.Repeat("x", 1024),
		strings.Repeat("é", 60), "a--b", "A.b_c-d", " ", "\n", "0",
	} {
		if got := p.say("path " + base64.StdEncoding.EncodeToString([]byte(name))); got != fileName(name) {
			t.Errorf("PHP calls the file of %q %q, we call it %q", name, got, fileName(name))
		}
	}
}

// As docs/php.md says, PHP ignores cool-downs: it gets a name that cools down.
func TestPHPIgnoresCoolDowns(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	p := php(t, s.Dir())
	take(t, s, request("job", "us"))
	if _, err := s.Release(patience(t), "job", "us", driver.MaxTTL); err != nil {
		t.Fatal(err)
	}
	refused(t, s, request("job", "us"))
	p.want("acquire job", "got it")
	p.want("release job", "released")
	if h := refused(t, s, request("job", "us")); !h.Holds[0].Cooling {
		t.Errorf("%+v", h) // PHP has not touched the record
	}
}
