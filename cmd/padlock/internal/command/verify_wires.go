package command

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/cmd/padlock/internal/lossy"
	"github.com/padlock-go/padlock/internal/soak"
	"github.com/padlock-go/padlock/open"
)

// wires are the proxies between verify's processes and the servers.
type wires struct {
	all       []*lossy.Proxy
	unproxied []string // the URLs of stores that are reached without a proxy; the URLs contain no secrets
}

func newWires() *wires { return &wires{} }

// close closes all proxies.
func (w *wires) close() {
	for _, p := range w.all {
		_ = p.Close() // nobody uses the proxy any more
	}
}

// addProxies starts a proxy for the server of a store, and returns the store's URL with the address
// of the proxy. If the store is made of other stores, each of these gets its own proxy. A store
// without a server keeps its URL. A store whose server cannot have a proxy keeps its URL too, and
// is added to w.unproxied.
func (w *wires) addProxies(rawURL string) (string, error) {
	u, s, err := open.Parse(rawURL, schemes)
	if err != nil {
		return "", err
	}
	query := u.Query()
	if s.Composite {
		for i, member := range query["store"] {
			if query["store"][i], err = w.addProxies(member); err != nil {
				return "", err
			}
		}
		return u.Scheme + ":?" + query.Encode(), nil
	}
	if s.Servers == nil {
		return rawURL, nil
	}
	if servers, _ := s.Servers(u); len(servers) == 1 && s.At != nil && s.At(u, servers[0]) != nil {
		p, err := lossy.Listen(servers[0])
		if err != nil {
			return "", err
		}
		w.all = append(w.all, p)
		return s.At(u, p.Addr()).String(), nil
	}
	if shown := open.Redacted(rawURL, schemes); !slices.Contains(w.unproxied, shown) {
		w.unproxied = append(w.unproxied, shown)
	}
	return rawURL, nil
}

// faults returns the faults that the proxies can cause.
func (w *wires) faults() []soak.Fault {
	if len(w.all) == 0 {
		return nil
	}
	on := soak.Targets("connection", len(w.all))
	lose := func(kind string, what lossy.Loss) soak.Fault {
		return soak.Fault{Kind: kind, On: on, Last: time.Second, Grace: 4 * time.Second, Weight: 3, Begin: func(_ *rand.Rand, i int) (func() error, error) {
			w.all[i].Lose(what)
			return func() error { w.all[i].Lose(lossy.Nothing); return nil }, nil
		}}
	}
	reset := soak.Fault{Kind: "reset", On: on, Grace: 4 * time.Second, Weight: 3, Begin: func(_ *rand.Rand, i int) (func() error, error) {
		w.all[i].Reset()
		return nil, nil
	}}
	return []soak.Fault{lose("lost replies", lossy.Replies), lose("cut", lossy.Everything), reset}
}

// sweep removes the lock files that verify has made for its own names. A file that cannot be
// removed is only reported, because it does no harm.
func (v *verification) sweep(ctx context.Context) {
	if err := v.removeFiles(ctx); err != nil {
		v.app.say(note{Event: "left", Message: "some lock files of " + v.run.Load.Prefix + "… could not be removed: " + reason(err)})
	}
}

func (v *verification) removeFiles(ctx context.Context) error {
	store, err := openVerified(ctx, v.url)
	if err != nil {
		return err
	}
	l := padlock.New(store)
	defer v.app.close(l)
	name := v.run.Load.Prefix + "gate"
	state, err := l.Inspect(ctx, name)
	if state.Path == "" {
		return nil // the store keeps no files, or it does not report its path
	}
	_ = err // the path is known even if there was an error
	_, stem, _ := strings.Cut(filepath.Base(state.Path), ".")
	stem, _, _ = strings.Cut(stem, "gate")
	dir := filepath.Dir(state.Path)
	files, err := os.ReadDir(dir) // Glob would treat a [ in the directory's name as a pattern
	for _, file := range files {
		if strings.HasPrefix(file.Name(), "sf."+stem) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, file.Name())))
		}
	}
	return err
}
