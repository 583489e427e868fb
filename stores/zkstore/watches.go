package zkstore

import "github.com/go-zookeeper/zk"

// A nodeWatch is the watch on a node. All goroutines of a session that watch the same node share
// one watch, because the client keeps each watch until the node is deleted.
type nodeWatch struct {
	path string
	done chan struct{} // closed when the node was deleted or changed; it may also be closed earlier

	// The next fields are guarded by session.mu.
	announced bool // the watch has begun, and the node's data has the field Announces
	firstData bool // nobody had changed the node's data before the watch began
	deleted   bool // the event was the deletion of the node
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
	text, stat, _, err := ss.conn.GetW(path)
	if err != nil {
		ss.fire(path, false)
	}
	if err == zk.ErrNoNode {
		return w, false, nil
	}
	if err == nil && decode(text).Announces {
		ss.mu.Lock()
		w.announced, w.firstData = true, stat.Version == 0
		ss.mu.Unlock()
	}
	return w, err == nil, err
}

// isOver reports whether the watch has ended.
func (w *nodeWatch) isOver() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// ended returns a channel that is closed when the watch has ended. If there is no watch, the
// channel is nil.
func (w *nodeWatch) ended() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.done
}

// onlyDeleted reports whether the node was deleted and nobody changed its data first. The data is
// changed first if the fences are raised, if another node replaces the node, or if Break deletes
// the node; see data.Announces.
func (ss *session) onlyDeleted(w *nodeWatch) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.announced && w.deleted
}

// announced reports whether the watch w has begun, and the owner of the node announces changes; see
// data.Announces.
func (ss *session) announced(w *nodeWatch) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w != nil && w.announced
}

// hadFirstData reports whether the node's data was still unchanged when the watch began.
func (ss *session) hadFirstData(w *nodeWatch) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return w.firstData
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
func (ss *session) fire(path string, deleted bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if w, ok := ss.watches[path]; ok {
		delete(ss.watches, path)
		w.deleted = deleted
		close(w.done)
	}
	if h, ok := ss.kept[path]; ok {
		delete(ss.kept, path)
		ss.spawn(func() { ss.nodeGone(h.name, h.token.Text()) })
	}
}
