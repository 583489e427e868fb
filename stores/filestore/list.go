package filestore

// fileList is a linked list of files. The most recently used file comes first.
type fileList struct {
	root file
	len  int
}

// init empties the list.
func (l *fileList) init() {
	l.root.next, l.root.prev, l.len = &l.root, &l.root, 0
}

func (l *fileList) push(f *file) {
	f.prev, f.next = &l.root, l.root.next
	f.prev.next, f.next.prev = f, f
	l.len++
}

// remove does nothing if f is in no list.
func (l *fileList) remove(f *file) {
	if f.next == nil {
		return
	}
	f.prev.next, f.next.prev = f.next, f.prev
	f.prev, f.next = nil, nil
	l.len--
}

func (l *fileList) last() *file { return l.root.prev }
