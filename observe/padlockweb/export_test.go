package padlockweb

// OpenStreams returns how many streams are open.
func OpenStreams(w *Web) int {
	w.places.mu.Lock()
	defer w.places.mu.Unlock()
	return w.places.all
}

// MaxStreams makes n pages live at most.
func MaxStreams(n int) Option { return func(set *settings) { set.streams = n } }
