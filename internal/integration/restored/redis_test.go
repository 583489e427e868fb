package restored

import (
	"os"
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// TestRedis puts a copy of dump.rdb, and of the append-only files, back.
func TestRedis(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    server.RedisOptions
		file string
	}{
		"snapshot":    {server.RedisOptions{}, "dump.rdb"},
		"append-only": {server.RedisOptions{Persist: true}, "appendonlydir"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.Redis(t, c.o)
			file, kept := s.Place().Path(c.file), t.TempDir()+"/copy"
			place{s.URL() + "?max-ttl=3s", 3 * time.Second, func() {
				if !c.o.Persist {
					if _, err := server.AskRedis(t.Context(), s.Addr(), "SAVE"); err != nil {
						t.Fatal(err)
					}
				}
				run(t, "cp", "-a", file, kept)
			}, func() {
				s.Kill()
				if err := os.RemoveAll(file); err != nil {
					t.Fatal(err)
				}
				run(t, "cp", "-a", kept, file)
				s.Restart(true)
			}}.play(t, want{guard: !c.o.Persist, late: 2 * time.Second})
		})
	}
}
