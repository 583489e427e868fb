package padlock

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/padlock-go/padlock/driver"
)

// Paths makes each name that is given to AcquireAll or DoAll a path, whose parts are separated by
// slashes. The lock on src then excludes the locks on src, src/server and all other paths below src,
// and locks on paths of which none lies in another are held side by side. A path is at most 32 parts
// long, and is written as package path's Clean writes it, without "." and ".."; otherwise the error
// is ErrInvalid.
//
// Without Paths, a lock on src and one on src/server do not exclude each other.
//
// The lock on a path is an exclusive lock on its own name, and a shared lock on the name of each
// folder above it. So a lock on the plain name src, too, excludes every path in src, but one on the
// plain name src/server does not exclude the path src. Names and Fences have the folders as well;
// Lock.Shared tells them apart.
//
// The fence of a path is greater than every earlier fence of the same path, of the folders above it
// and of all paths below it. On a store without driver.FenceRaiser the fences are 0.
//
// With Shared, HoldAtLeast or CoolDown the error is ErrInvalid, as it is from Acquire and Do, which take
// one name. If the store has no shared mode, the error is errors.ErrUnsupported.
func Paths() Option { return option(func(s *settings) { s.paths = true }) }

// maxParts bounds the parts of a path, because each part costs requests.
const maxParts = 32

var (
	errPathShared = fmt.Errorf("%w: Paths and Shared cannot be combined", ErrInvalid)
	errPathSingle = fmt.Errorf("%w: Paths is for AcquireAll and DoAll", ErrInvalid)

	// A folder that cools down would keep all paths in it taken.
	errPathCool = fmt.Errorf("%w: Paths cannot be combined with HoldAtLeast and CoolDown", ErrInvalid)
)

// withFolders returns the sorted names and, with Paths, the folders above them in between. So all
// callers take the names in one order, and each folder before the paths below it.
func (t *taking) withFolders(names []string) ([]string, error) {
	if !t.set.paths {
		return names, nil
	}
	t.paths = slices.Clone(names)
	all := slices.Clone(names)
	for _, p := range names {
		if clean := path.Clean(p); clean != p || p == "." || p == "/" || p == ".." || strings.HasPrefix(p, "../") {
			return nil, fmt.Errorf("%w: path: %s is not a path like src/server", ErrInvalid, quote(p))
		}
		if strings.Count(p, "/") >= maxParts {
			return nil, fmt.Errorf("%w: path: %s has more than %d parts", ErrInvalid, quote(p), maxParts)
		}
		for folder := path.Dir(p); folder != "." && folder != "/"; folder = path.Dir(folder) {
			all = append(all, folder)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// preparePath changes the settings of the attempt at name, one of the names of withFolders. A folder is
// shared. A path that the caller gave gets a fence above those of its folders, which are above those
// of every earlier lock on a folder.
func (t *taking) preparePath(a *attempt, name string) {
	if a.set.shared = !slices.Contains(t.paths, name); !a.set.shared {
		for _, h := range t.holds {
			a.set.fenceAbove = max(a.set.fenceAbove, h.fencing())
		}
	}
}

// raiseFolders makes the fences of all names as great as the greatest of them, which is that of a path
// below them. So a later lock on a folder gets a greater one. RaiseFence succeeds only while the folder
// is held: nobody has locked it since, and the order holds even if this process is paused now.
func (t *taking) raiseFolders() error {
	raiser, ok := driver.As[driver.FenceRaiser](t.l.store)
	if ok = ok && t.l.can(driver.AbilityFenceRaiser); !ok {
		for _, h := range t.holds {
			t.setFence(h, 0) // the store cannot keep them in the order of the paths
		}
		return nil
	}
	var top uint64
	for _, h := range t.holds {
		top = max(top, h.fencing())
	}
	for _, h := range t.holds {
		if h.fencing() == top {
			continue
		}
		t.setFence(h, top) // first, so that no renewal finds a fence in the store that it does not know
		if err := t.raise(raiser, h, top); err != nil {
			h.noticeLoss(err)
			return cmp.Or(t.firstLoss(), failed(OpAcquire, h.name, callerError(t.ctx, err)))
		}
	}
	return nil
}

// raise calls RaiseFence, and again if the reply was lost.
func (t *taking) raise(raiser driver.FenceRaiser, h *hold, fence uint64) error {
	for i := 0; ; i++ {
		err := raiser.RaiseFence(t.ctx, h.name, h.token.Text(), fence)
		if err == nil || definite(err) || i == len(retryAfter) || t.l.sleep(t.ctx, retryAfter[i]) != nil {
			return err
		}
	}
}

func (t *taking) setFence(h *hold, fence uint64) {
	t.l.mu.Lock()
	defer t.l.unlock()
	h.fence = fence
}
