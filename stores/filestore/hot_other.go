//go:build !linux

package filestore

// hotPage is empty: only Linux maps pages.
type hotPage struct{}

func (c *conn) readHead(b []byte) int {
	n, _ := c.pread(b, 0)
	return n
}

func (c *conn) writeHead(b []byte) error { return c.pwrite(b, 0) }

func (*conn) unmap() {}
