package restored

import (
	"testing"
	"time"

	"github.com/padlock-go/padlock/internal/server"
)

// TestRedis puts a copy of dump.rdb, and of the append-only files, back.
func TestRedis(t *testing.T) {
	t.Parallel()
	server.Thorough(t)
	for name, c := range map[string]struct {
		o    server.RedisOptions
		file string
	}{
		"snapshot":    {server.RedisOptions{}, "dump.rdb"},
		"append-only": {server.RedisOptions{Persist: true}, "appendonlydir"},
	} {
		each(t, name, want{guard: !c.o.Persist, late: 2 * time.Second}, func(t *testing.T) place {
			s := server.Redis(t, c.o)
			p := copied(t, s, c.file, "redis://%s?max-ttl=3s")
			if !c.o.Persist {
				file, kept := s.Place().Path(c.file), t.TempDir()+"/copy"
				p.backUp = func() {
					if _, err := server.AskRedis(t.Context(), s.Addr(), "SAVE"); err != nil {
						t.Fatal(err)
					}
					run(t, "cp", "-a", file, kept)
				}
				p.putBack = func() {
					s.Kill()
					run(t, "cp", "-a", kept, file)
					s.Restart(true)
				}
			}
			return p
		})
	}
}
