package zkstore

import "github.com/go-zookeeper/zk"

// watchDeletion returns a channel that is closed when a node is deleted. The channel may also be
// closed earlier. If the node does not exist, ok is false. All goroutines that watch the same node
// share one watch, because the client keeps each watch until the node is deleted.
func (ss *session) watchDeletion(path string) (deleted <-chan struct{}, ok bool, err error) {
	ss.mu.Lock()
	w, shared := ss.watches[path]
	if !shared {
		w = make(chan struct{})
		ss.watches[path] = w
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
	ss.kept[path] = h
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
		close(w)
	}
	if h, ok := ss.kept[path]; ok {
		delete(ss.kept, path)
		ss.spawn(func() { ss.nodeGone(h.name, h.token) })
	}
}
