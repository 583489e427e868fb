package redisstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// RunIDs stores a line of text for each server. From this line, the restart guard notices that the
// server has restarted. A RunIDs must be safe for concurrent use. If it loses a line, the guard may
// miss a restart.
type RunIDs interface {
	// Load returns the line that was stored last for key, or "". A key is the address of a server,
	// or the id of a server's data, which a failover keeps. After an error together with "", the
	// guard acts as if the server had restarted.
	Load(key string) (string, error)
	// Store remembers line, which has fewer than 100 bytes and contains no secret.
	Store(key, line string) error
}

// RunIDDir remembers run ids in files of a directory. It creates the directory, readable by this
// user only. Short-lived processes, such as cron jobs, share the run ids through it.
func RunIDDir(dir string) RunIDs { return runIDDir(dir) }

type runIDDir string

func (d runIDDir) file(server string) string {
	sum := sha256.Sum256([]byte(server))
	return filepath.Join(string(d), "redis-"+hex.EncodeToString(sum[:12]))
}

// Load returns the line of the file. If the directory could not keep the line, the line is in the
// memory of the process.
func (d runIDDir) Load(server string) (string, error) {
	line, err := d.read(server)
	if line == "" {
		line, _ = processRunIDs.Load(d.file(server))
	}
	return line, err
}

// Store writes the line to the file. If that fails, this process remembers it: otherwise no process
// would notice a restart.
func (d runIDDir) Store(server, line string) error {
	err := d.write(server, line)
	if err != nil {
		_ = processRunIDs.Store(d.file(server), line)
	}
	return err
}

func (d runIDDir) read(server string) (string, error) {
	b, err := os.ReadFile(d.file(server))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(b)), err
}

// write replaces the file in one step, so that no reader sees half of it.
func (d runIDDir) write(server, line string) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(d), "redis-*.new")
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), d.file(server))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// processRunIDs has the run ids that the stores of this process have seen.
var processRunIDs RunIDs = &runIDMap{m: map[string]string{}}

type runIDMap struct {
	mu sync.Mutex
	m  map[string]string
}

func (r *runIDMap) Load(server string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.m[server], nil
}

func (r *runIDMap) Store(server, line string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m[server] = line
	return nil
}
