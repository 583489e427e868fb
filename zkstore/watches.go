package zkstore

import "github.com/go-zookeeper/zk"

// watchDeletion returns a channel that is closed when a node is deleted. The channel may be closed
// earlier. ok is false if the node does not exist. Watchers of one node share a watch, because the
// client keeps each watch until the node is deleted.
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

// fire wakes those that watch a node.
func (ss *session) fire(path string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w, ok := ss.watches[path]; ok {
		delete(ss.watches, path)
		close(w)
	}
	if h, ok := ss.kept[path]; ok {
		delete(ss.kept, path)
		ss.spawn(func() { ss.missing(h.name, h.token) })
	}
}
