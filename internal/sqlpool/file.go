package sqlpool

import (
	"context"
	"errors"
	"io/fs"
	"os"
)

// An openFile is the file that the connections of a pool of SQLite have open.
type openFile struct {
	path string // "" for a database in memory
	is   os.FileInfo
}

// A movedError says that there is another file at the path, or none. SQLite itself reports that only
// if the file has no write-ahead log.
type movedError string

func (e movedError) Error() string {
	return "the file " + string(e) + " was replaced or removed while it was open; the next call uses the file that is there then"
}

// Code returns SQLITE_READONLY_DBMOVED.
func (e movedError) Code() int { return 1032 }

// Here returns an error if the file of an SQLite database was replaced or removed. The connections
// would go on with the old file, while programs that start later use the new one. Here ends the idle
// connections. When no connection is left, the next one opens the new file.
func (p *Pool) Here(ctx context.Context) error {
	if !p.SQLite {
		return nil
	}
	f := p.file.Load()
	if f == nil {
		if f = p.find(ctx); f == nil {
			return nil // the statement that follows returns the error
		}
	}
	if f.path == "" {
		return nil
	}
	is, err := os.Stat(f.path)
	gone := errors.Is(err, fs.ErrNotExist)
	if err == nil && os.SameFile(f.is, is) || err != nil && !gone { // a program that has dropped its rights may not look
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(p.Stats().Idle)
	if !gone && p.Stats().OpenConnections == 0 {
		p.file.CompareAndSwap(f, &openFile{f.path, is})
	}
	return movedError(f.path)
}

// find asks SQLite for the path of the file.
func (p *Pool) find(ctx context.Context) *openFile {
	f := &openFile{}
	if p.DB.QueryRowContext(ctx, "SELECT file FROM pragma_database_list WHERE name = 'main'").Scan(&f.path) != nil {
		return nil
	}
	if f.path != "" {
		var err error
		if f.is, err = os.Stat(f.path); err != nil {
			return nil
		}
	}
	p.file.CompareAndSwap(nil, f)
	return p.file.Load()
}
