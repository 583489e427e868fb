// Package standing says what one request knows of its session, and why its answer may not stand.
// Only its methods change the two types, so that package session cannot make a state that
// contradicts itself, such as a session that is loaded and has no key.
package standing

// Standing is what a request knows of its session:
//
//	standing   meaning                                  a read                 a write
//	Unread     no call has used the session yet         loads the session      loads the session
//	Reload     the session must be loaded again,        loads it again         loads it again
//	           under the lock
//	Absent     there is no session yet                  finds nothing          waits for the commit
//	Loaded     there is a session                       gets the loaded value  waits for the commit
//	Followed   another request gave the session a new   gets the old value     waits for the commit, which
//	           id after this request began                                     compares all that was read
//	Frozen     the client sent an id from before        gets the old value     returns ErrMoved
//	           Regenerate
//	Destroyed  Destroy has ended the session            returns ErrDestroyed   returns ErrDestroyed
//
// The old value is the value from before Regenerate gave the session a new id.
type Standing uint8

// The standing of a request changes in these ways only. TestStates of package session checks them.
//
//	from                      to                method   caused by
//	Unread                    Absent            None     the load
//	Unread, Reload            Loaded            Found    the load; if the session no longer exists, Reload
//	                                                     stays, and the request has failed
//	Unread, Reload            Followed          Follow   the load, if it finds a frozen tombstone that is
//	                                                     newer than the request
//	Unread, Reload            Frozen            Freeze   the load, if it finds a frozen tombstone that is
//	                                                     older than the request
//	Absent                    Loaded            Move     the first commit, or Incr
//	Loaded                    Loaded            Move     Regenerate, which gives the session a new id
//	Loaded                    Followed          Follow   a commit or Regenerate that finds that the session
//	                                                     has moved
//	Followed                  Loaded            Move     an Update, which loads the session by itself
//	Loaded, Followed, Frozen  Reload            Again    With, if its mode needs the lock
//	Frozen                    Absent            None     Regenerate, which begins a new session
//	all                       Destroyed         Destroy  Destroy; the answer then deletes the cookie
const (
	Unread Standing = iota
	Reload
	Absent
	Loaded
	Followed
	Frozen
	Destroyed
)

// String returns the name in the table above.
func (s Standing) String() string {
	return [...]string{"unread", "reload", "absent", "loaded", "followed", "frozen", "destroyed"}[s]
}

// Place is the standing of a session, with its id and its key in the store. The zero value is an
// Unread session without an id.
type Place struct {
	standing Standing
	id       string
	ownKey   string // the key that belongs to id, or the key of a session whose id is not known
	key      string
}

// Is reports whether the standing is s.
func (p *Place) Is(s Standing) bool { return p.standing == s }

// Standing returns the standing.
func (p *Place) Standing() Standing { return p.standing }

// IsLoaded reports whether the values are loaded, even if there are none.
func (p *Place) IsLoaded() bool { return p.standing >= Absent }

// ID returns the session's id. It is "" if there is none or it is not known.
func (p *Place) ID() string { return p.id }

// Key returns the session's key in the store. It is "" while there is none.
func (p *Place) Key() string { return p.key }

// Seek says that the next load looks for the session at this key. Without one, it finds none.
func (p *Place) Seek(id, key string) {
	p.id, p.ownKey, p.key = id, key, key
	if p.standing != Reload {
		p.standing = Unread
	}
}

// Found says that the session is at the key that was sought.
func (p *Place) Found() { p.standing = Loaded }

// None says that there is no session.
func (p *Place) None() { *p = Place{standing: Absent} }

// Follow says that the session has a new id, and the given key. The id of p stays the old one.
func (p *Place) Follow(key string) { p.standing, p.key = Followed, key }

// Freeze is Follow for a client that may no longer write.
func (p *Place) Freeze(key string) { p.standing, p.key = Frozen, key }

// Move gives the session a new id and its key. A session that must be loaded again still must.
func (p *Place) Move(id, key string) {
	p.id, p.ownKey, p.key = id, key, key
	if p.standing == Absent || p.standing == Followed {
		p.standing = Loaded
	}
}

// Again says that the session must be loaded again. The load starts at the own key: another request
// may have moved the session, but this client may see only what its old id shows.
func (p *Place) Again() { p.standing, p.key = Reload, p.ownKey }

// Destroy says that the session has ended.
func (p *Place) Destroy() { p.standing = Destroyed }
