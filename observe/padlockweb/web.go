package padlockweb

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/internal/remote"
	"github.com/padlock-go/padlock/observe/sampler"
)

// Web is the http.Handler that Handler returns. It is safe for concurrent use.
type Web struct {
	settings
	locker *padlock.Locker
	mux    *http.ServeMux
	origin *http.CrossOriginProtection

	visits  visits
	records remote.Records
	places  places
	drawn   drawn

	keptJobs    keptJobs      // see jobs
	readingJobs chan struct{} // contains a token while jobs reads

	closing context.Context // ends when Close begins
	close   context.CancelFunc
	running sync.WaitGroup // the sampler, if it is the Handler's own
}

// Handler returns an http.Handler that shows the locks of locker's store. It answers below the path
// "/"; to mount it elsewhere, wrap it in http.StripPrefix. When the Handler is no longer used,
// close it; close the locker after it.
func Handler(locker *padlock.Locker, opts ...Option) *Web {
	w := &Web{
		settings: settings{streams: maxStreams, logger: slog.New(slog.DiscardHandler)},
		locker:   locker, origin: http.NewCrossOriginProtection(), readingJobs: make(chan struct{}, 1),
	}
	for _, o := range opts {
		if o != nil {
			o(&w.settings)
		}
	}
	w.dropBroken()
	w.places.most, w.places.each, w.places.by = w.streams, max(1, w.streams/4), make(map[string]int)
	w.closing, w.close = context.WithCancel(context.Background())
	if w.sampler == nil {
		w.sampler = sampler.New(locker)
		w.running.Go(func() { w.sampler.Run(w.closing) })
	}
	if w.place == "" {
		w.place = locker.Guarantees().Store
	}
	if w.tokens != nil {
		w.tokens.warn(w.logger)
	}
	if !w.hasRule() {
		w.logger.Error(noRule)
	}
	w.mux = w.routes()
	return w
}

// Close ends all streams and stops the sampler, if it is the Handler's own. Requests that are under
// way are finished. Close may be called several times. It always returns nil.
func (w *Web) Close() error {
	w.places.close()
	w.close()
	w.running.Wait()
	return nil
}

// route says which method serves a path of the Handler.
type route struct {
	pattern string
	right   Right // the least right that a visitor needs
	serve   func(*Web, http.ResponseWriter, *http.Request, *visitor)
}

func (w *Web) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range []route{
		{"GET /{$}", RightRead, (*Web).showTable},
		{"GET /name", RightRead, (*Web).showName},
		{"GET /jobs", RightRead, (*Web).showJobs},
		{"GET /events", RightRead, (*Web).stream},
		{"GET /api/locks", RightRead, (*Web).listJSON},
		{"GET /metrics", RightRead, (*Web).showFigures},
		{"GET /break", RightBreak, (*Web).askBreak},
		{"POST /break", RightBreak, (*Web).breakLock},
		{"GET /login", RightNone, (*Web).askLogin},
		{"POST /login", RightNone, (*Web).logIn},
		{"POST /logout", RightNone, (*Web).logOut},
	} {
		mux.HandleFunc(r.pattern, func(rw http.ResponseWriter, req *http.Request) {
			if v, ok := w.admit(rw, req, r.right); ok {
				r.serve(w, rw, req, v)
			}
		})
	}
	for _, name := range []string{"style.css", "live.js", "icon.svg"} {
		mux.HandleFunc("GET /"+name, serveAsset)
	}
	mux.HandleFunc("GET /healthz", func(rw http.ResponseWriter, _ *http.Request) { plain(rw, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", remote.Ready(w.canRead))
	return mux
}

// ServeHTTP serves all paths that the package comment lists.
func (w *Web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	setHeaders(rw.Header())
	path := r.URL.Path
	switch {
	case path == "":
		// For example "/locks" under StripPrefix("/locks"). Relative links work only at "/locks/".
		at, _, _ := strings.Cut(r.RequestURI, "?")
		redirect(rw, "./"+at[strings.LastIndexByte(at, '/')+1:]+"/")
		return
	case path == "/healthz" || path == "/readyz":
	case !w.hosts.Allow(r):
		w.refused(r, "", "the host name is not allowed", slog.String("host", r.Host))
		plain(rw, http.StatusMisdirectedRequest, "this host name is not allowed here; see --allowed-host of padlock serve, or padlockweb.Hosts")
		return
	}
	if err := w.origin.Check(r); err != nil {
		w.refused(r, "", "the request came from a page of another site")
		plain(rw, http.StatusForbidden, "the request came from a page of another site")
		return
	}
	if r.Body != nil {
		r.Body = http.MaxBytesReader(rw, r.Body, maxBody)
	}
	w.mux.ServeHTTP(rw, r)
}

// maxBody is the largest size of a request's body. The form that breaks a lock has the largest
// body: a name and a reason. A name has up to 1,024 bytes, and each byte may be written as three
// characters (%XX).
const maxBody = 16 << 10

// canRead reads one name.
func (w *Web) canRead(ctx context.Context) error {
	_, err := w.locker.Inspect(ctx, "readyz")
	return err
}
