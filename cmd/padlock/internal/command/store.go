package command

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"github.com/padlock-go/padlock"
	"github.com/padlock-go/padlock/driver"
	"github.com/padlock-go/padlock/open"
)

// noURL returns the failure for an invalid or missing URL of the store.
func noURL(name string, err error) *failure {
	if errors.Is(err, padlock.ErrInvalid) { // a variable is invalid
		return fail(exitUsage, "usage", name, "%s", reason(err))
	}
	why := fail(exitUnavailable, "unavailable", name, "there is no default store for this user: %s", reason(err))
	why.note.Do = ownStore()
	return why
}

// urlAsName returns the failure for a NAME that is the URL of a store. The user has probably left
// out --store, and the lock would be one of this machine only.
func (a *app) urlAsName(name string) error {
	scheme, _, isURL := strings.Cut(name, "://")
	if !isURL || a.storeURL != "" {
		return nil
	}
	for _, s := range open.Known(a.schemes) {
		if slices.Contains(s.Names, scheme) {
			return urlInPlaceOfName(open.Redacted(name, a.schemes))
		}
	}
	if slices.Contains(onlyInAll, scheme) {
		return urlInPlaceOfName(scheme + "://…")
	}
	return nil
}

func urlInPlaceOfName(shown string) *failure {
	return fail(exitUsage, "usage", "", "the name of the lock is %s, which is the URL of a store; write --store before it, and then the name (a lock may have such a name only if --store is given)", show(shown))
}

// looker opens the store for verbs that take no lock, such as padlock status. It does not create
// the directory in a file URL, because the URL may contain a typing error. If there is no such
// directory, no lock is held, and a remark on the terminal says so.
func (a *app) looker(ctx context.Context, name string) (*padlock.Locker, error) {
	if why := a.urlAsName(name); why != nil {
		return nil, why
	}
	rawURL, err := a.url()
	if err != nil || a.urlSource() == "" {
		return a.locker(ctx, name)
	}
	u, err := url.Parse(rawURL)
	if err != nil || u.Scheme != "file" || u.Query().Get("create") == "no" {
		return a.locker(ctx, name)
	}
	if _, err := os.Stat(u.Path); !errors.Is(err, fs.ErrNotExist) {
		return a.locker(ctx, name)
	}
	query := u.Query()
	query.Set("create", "no")
	u.RawQuery = query.Encode()
	if _, err := a.openStore(ctx, u.String()); errors.Is(err, padlock.ErrInvalid) {
		return a.locker(ctx, name) // locker reports what is wrong with the URL
	}
	a.remark(name, "the directory %s does not exist yet", show(u.Path))
	empty, err := open.Store(ctx, "memory:")
	if err != nil {
		return nil, a.explain(name, err)
	}
	return padlock.New(empty), nil
}

// locker opens the store.
func (a *app) locker(ctx context.Context, name string, opts ...padlock.LockerOption) (*padlock.Locker, error) {
	if why := a.urlAsName(name); why != nil {
		return nil, why
	}
	rawURL, err := a.url()
	if err != nil {
		return nil, noURL(name, err)
	}
	return a.open(ctx, name, rawURL, opts...)
}

func (a *app) open(ctx context.Context, name, rawURL string, opts ...padlock.LockerOption) (*padlock.Locker, error) {
	store, err := a.openStore(ctx, rawURL)
	if err != nil {
		why := a.explain(name, err)
		if from := a.urlSource(); from != "" && errors.Is(err, padlock.ErrInvalid) {
			why.note.Message = from + ": " + why.note.Message
		}
		return nil, why
	}
	a.opened = store
	if text := os.Getenv(envFenceAbove); text != "" {
		fence, err := strconv.ParseUint(text, 10, 64)
		if err != nil || fence > driver.MaxFenceAbove {
			return nil, usage("%s is %s; write a fence, a number of at most 2^53 - 2^50", envFenceAbove, show(text))
		}
		opts = append(opts, padlock.FenceAbove(fence))
	}
	return padlock.New(store, opts...), nil
}

// envFenceAbove is the variable that raises the fences of all names: after a backup of a store, to the
// greatest one that a guard has seen.
const envFenceAbove = "PADLOCK_FENCE_ABOVE"

// readAgain returns an error if another program cannot read the URL of the store, because it came
// through a pipe. The parameters are the beginning of a sentence, and what the user can do.
func (a *app) readAgain(who, do string) error {
	file := os.Getenv(open.EnvStoreFile)
	if a.urlSource() != open.EnvStoreFile {
		return nil
	}
	if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
		return nil
	}
	return usage("%s cannot read the URL again, because %s is %s, no regular file; %s", who, open.EnvStoreFile, strconv.Quote(file), do)
}

// ownStore returns the commands with which a user without a home directory, such as www-data, can
// create a store.
func ownStore() []string {
	name, dir := strconv.Itoa(os.Getuid()), "/var/lib/padlock-"+strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil && u.Username != "" && !strings.ContainsAny(u.Username, "'\\/ ") {
		name, dir = u.Username, "/var/lib/padlock-"+u.Username
	}
	return []string{"as root:  install -d -o " + name + " -m 700 " + dir, "then:     export PADLOCK_STORE=file://" + dir}
}

func (a *app) close(l *padlock.Locker) {
	ctx, cancel := context.WithTimeout(context.Background(), a.closePatience)
	defer cancel()
	_ = l.Close(ctx) // Release has already reported everything that matters
}
