package padlockweb

import (
	"crypto/rand"
	"crypto/sha256"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// visitor is the sender of a request.
type visitor struct {
	token // without a name if anonymous
}

// canSee reports whether the visitor may know that a lock of this name exists.
func (v *visitor) canSee(name string) bool {
	return v.right >= RightRead && strings.HasPrefix(name, v.prefix)
}

// reason returns the text of err for a visitor who may see all names. Any other visitor gets
// safeText, because the text of err may contain the name or the file of any lock.
func (v *visitor) reason(err error, safeText string) string {
	if v.prefix != "" {
		return safeText
	}
	return err.Error()
}

// canBreak reports whether the visitor may break a lock of this name.
func (v *visitor) canBreak(name string) bool { return v.right >= RightBreak && v.canSee(name) }

// known reports whether the visitor has a token.
func (v *visitor) known() bool { return v.token.name != "" }

func newVisitor(k token) *visitor { return &visitor{k} }

// visits is the list of the browsers that are logged in. Each browser has a cookie with a random
// number, and the list has only the hash of that number. A visit ends at a logout, after visitTime,
// when its token is removed, or when the process ends.
type visits struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]visit
}

type visit struct {
	token token
	ends  time.Time
}

const (
	visitTime = 12 * time.Hour
	maxVisits = 1024
)

// beginVisit starts a visit and returns the value of the cookie. If there are too many visits, it
// ends one of them.
func (v *visits) beginVisit(k token, now time.Time) string {
	secret := rand.Text()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.all == nil {
		v.all = make(map[[sha256.Size]byte]visit)
	}
	if len(v.all) >= maxVisits {
		maps.DeleteFunc(v.all, func(_ [sha256.Size]byte, old visit) bool { return now.After(old.ends) })
	}
	for old := range v.all {
		if len(v.all) < maxVisits {
			break
		}
		delete(v.all, old)
	}
	v.all[sha256.Sum256([]byte(secret))] = visit{k, now.Add(visitTime)}
	return secret
}

// find returns the token of the visit that the cookie names.
func (v *visits) find(secret string, now time.Time) (token, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.all[sha256.Sum256([]byte(secret))]
	return found.token, ok && now.Before(found.ends)
}

func (v *visits) end(secret string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.all, sha256.Sum256([]byte(secret)))
}

// cookieName is the name of the cookie of a visit.
const cookieName = "padlock_visit"

// setCookie sends the cookie of a visit. With an empty secret it removes the cookie. Without a path,
// browsers send it to all addresses beside that of the login, which are those of the Handler.
func setCookie(w http.ResponseWriter, r *http.Request, secret string) {
	c := &http.Cookie{
		Name: cookieName, Value: secret, MaxAge: int(visitTime / time.Second),
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
	if secret == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}
