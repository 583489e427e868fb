package zkstore

import "github.com/go-zookeeper/zk"

// A nodeWatch is the watch on a node. All goroutines of a session that watch the same node share
// one watch, because the client keeps each watch until the node is deleted.
type nodeWatch struct {
	path string
	done chan struct{} // closed when the node was deleted or changed; it may also be closed earlier
}

// watchDeletion watches a node. If the node does not exist, ok is false.
func (ss *session) watchDeletion(path string) (w *nodeWatch, ok bool, err error) {
	ss.mu.Lock()
	w, shared := ss.watches[path]
	if !shared {
		w = &nodeWatch{path: path, done: make(chan struct{})}
		ss.watches[path], ss.hasWatched = w, true
	}
	ss.mu.Unlock()
	if shared {
		return w, true, nil
	}
	_, _, _, err = ss.conn.GetW(path)
	if err != nil {
		ss.fire(path)
	}
	if err == zk.ErrNoNode {
		return w, false, nil
	}
	return w, err == nil, err
}

func (ss *session) watch(path string, h *hold) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.kept[path], ss.hasWatched = h, true
}

func (ss *session) unwatch(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	delete(ss.kept, path)
}

// fire is called when a node was deleted or changed. It wakes the goroutines that watch the node.
// If the node is that of a hold, it also calls nodeGone.
func (ss *session) fire(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w, ok := ss.watches[path]; ok {
		delete(ss.watches, path)
		close(w.done)
	}
	if h, ok := ss.kept[path]; ok {
		delete(ss.kept, path)
		ss.spawn(func() { ss.nodeGone(h.name, h.token) })
	}
}
