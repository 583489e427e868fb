//go:build linux

package semstore

import (
	"os"
	"os/exec"
	"testing"

	"github.com/padlock-go/padlock/driver"
)

const symfony = "/usr/share/php/Symfony/Component/Lock/autoload.php"

// phpScript uses Debian's Symfony, which has the hash md5. For xxh128 it carries out the calls of
// Symfony 6.3, which has another hash and no other difference.
const phpScript = `
require '` + symfony + `';
use Symfony\Component\Lock\{BlockingStoreInterface, Key, LockFactory};
class Newer implements BlockingStoreInterface {
    private array $held = [];
    private function lock(Key $key, bool $blocking): void {
        $id = unpack('i', hash('xxh128', $key, true))[1];
        do {
            $sem = @sem_get($id);
            $got = $sem && @sem_acquire($sem, !$blocking);
        } while ($blocking && !$got);
        if (!$got) throw new Symfony\Component\Lock\Exception\LockConflictedException();
        $this->held[(string) $key] = $sem;
    }
    public function save(Key $key) { $this->lock($key, false); }
    public function waitAndSave(Key $key) { $this->lock($key, true); }
    public function delete(Key $key) { if ($this->exists($key)) sem_remove($this->held[(string) $key]); unset($this->held[(string) $key]); }
    public function putOffExpiration(Key $key, float $ttl) {}
    public function exists(Key $key) { return isset($this->held[(string) $key]); }
}
$factory = new LockFactory($argv[1] == 'md5' ? new Symfony\Component\Lock\Store\SemaphoreStore() : new Newer());
while (($line = fgets(STDIN)) !== false) {
    [$command, $name] = explode(' ', rtrim($line, "\n"), 2);
    $name = base64_decode($name);
    $lock = $locks[$name] ??= $factory->createLock($name);
    try {
        $answer = match ($command) {
            'acquire' => $lock->acquire() ? 'got it' : 'held',
            'wait' => $lock->acquire(true) ? 'got it' : 'held',
            'release' => $lock->release() ?? 'released',
        };
    } catch (Throwable $e) {
        $answer = get_class($e).': '.$e->getMessage();
    }
    if ($answer != 'got it') unset($locks[$name]);
    echo $answer, "\n";
}
`

// php starts a PHP with Symfony Lock.
func php(t testing.TB, hash Hash) *child {
	t.Helper()
	path, err := exec.LookPath("php")
	if err == nil {
		_, err = os.Stat(symfony)
	}
	if err == nil {
		err = exec.Command(path, "-r", `exit(extension_loaded("sysvsem") ? 0 : 1);`).Run()
	}
	if err != nil {
		missing(t, "php with php-symfony-lock and sysvsem", err)
	}
	return start(t, exec.Command(path, "-r", phpScript, hash.String()))
}

func eachHash(t *testing.T, f func(*testing.T, Hash)) {
	for _, hash := range symfonys {
		t.Run(hash.String(), func(t *testing.T) { t.Parallel(); f(t, hash) })
	}
}

func TestPHPAndGoExcludeEachOther(t *testing.T) {
	eachHash(t, func(t *testing.T, hash Hash) {
		s, p, name := open(t, hash), php(t, hash), unique(t, "report/42:daily \xff\x00 run")
		for range 3 {
			take(t, s, request(name, "go"))
			p.want("acquire", name, "held")
			release(t, s, name, "go", driver.OutcomeReleased)
			p.want("acquire", name, "got it")
			held := refused(t, s, request(name, "go"))
			if len(held.Holds) != 1 || held.Holds[0].PID != p.cmd.Process.Pid || !held.Foreign() {
				t.Errorf("PHP is process %d; held by %+v", p.cmd.Process.Pid, held.Holds)
			}
			p.want("release", name, "released")
		}
	})
}

// PHP waits in the kernel for a lock that Go holds, and Go waits there for a lock that PHP holds.
func TestPHPAndGoWaitForEachOther(t *testing.T) {
	eachHash(t, func(t *testing.T, hash Hash) {
		s, p, name := open(t, hash), php(t, hash), unique(t, "")
		for range 3 {
			p.want("acquire", name, "got it")
			got := waiting(patience(t), s, request(name, "go"))
			waits(t, s, name, 1)
			p.want("release", name, "released")
			if g, err := got(); err != nil || g.TTL == 0 {
				t.Fatalf("Wait: %+v, %v", g, err)
			}
			take(t, s, request(name, "go"))
			p.send("wait", name)
			waits(t, s, name, 1)
			release(t, s, name, "go", driver.OutcomeReleased)
			p.expect("got it")
			p.want("release", name, "released")
		}
	})
}

// When a holder is killed, its lock becomes free. The other side can use the set that remains.
func TestKilledHoldersOfBothSides(t *testing.T) {
	name := unique(t, "")
	s, p, c := open(t, MD5), php(t, MD5), goChild(t)
	p.want("acquire", name, "got it")
	got := waiting(patience(t), s, request(name, "go"))
	waits(t, s, name, 1)
	p.kill()
	if g, err := got(); err != nil || g.TTL == 0 {
		t.Fatalf("Wait after kill -9 of PHP: %+v, %v", g, err)
	}
	take(t, s, request(name, "go")) // the reservation may lapse
	release(t, s, name, "go", driver.OutcomeReleased)
	c.want("acquire", name, "<nil>")
	other := php(t, MD5)
	other.want("acquire", name, "held")
	c.kill()
	other.want("acquire", name, "got it")
	refused(t, s, request(name, "go"))
	other.want("release", name, "released")
}

// Stores with different hashes do not see each other's locks. docs/stores/semaphore.md says so.
func TestHashesDoNotExcludeEachOther(t *testing.T) {
	name := unique(t, "")
	take(t, open(t, MD5), request(name, "old"))
	take(t, open(t, XXH128), request(name, "new"))
}
