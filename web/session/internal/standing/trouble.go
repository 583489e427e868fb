package standing

// Trouble says why the answer of the handler may not stand. A request has one at most:
//
//	trouble    caused by                     effect
//	none                                     calls work, and the answer stays as it is
//	refused    a write is not allowed        calls work; the answer is 409 or 503, and nothing is saved;
//	                                         IgnoreRefused ends it
//	failed     the store or the lock fails   every call returns the error; the answer is 409 or 503; a
//	                                         Destroy that succeeds ends it
//	abandoned  the handler calls Abandon     every call returns ErrAbandoned; the answer stays as it is
//
// A trouble further down in the table replaces one further up. It can occur in every Standing.
type Trouble struct {
	kind kind
	err  error // of a request that is refused or failed
}

type kind uint8

const (
	none kind = iota
	refused
	failed
	abandoned
)

// Refuse records the error of the first write that was refused.
func (t *Trouble) Refuse(err error) {
	if t.kind == none {
		*t = Trouble{refused, err}
	}
}

// Fail records an error of the store or of the lock.
func (t *Trouble) Fail(err error) {
	if t.kind != abandoned {
		*t = Trouble{failed, err}
	}
}

// Abandon records that the handler has given up the session.
func (t *Trouble) Abandon() { *t = Trouble{kind: abandoned} }

// Refused returns the error of a refused write, or nil.
func (t *Trouble) Refused() error { return t.errorOf(refused) }

// Failed returns the error of the store or of the lock, or nil.
func (t *Trouble) Failed() error { return t.errorOf(failed) }

func (t *Trouble) errorOf(k kind) error {
	if t.kind != k {
		return nil
	}
	return t.err
}

// Abandoned reports whether the handler has given up the session.
func (t *Trouble) Abandoned() bool { return t.kind == abandoned }

// IgnoreRefused forgets a refused write.
func (t *Trouble) IgnoreRefused() { t.end(refused) }

// Recover forgets that the store or the lock failed.
func (t *Trouble) Recover() { t.end(failed) }

func (t *Trouble) end(k kind) {
	if t.kind == k {
		*t = Trouble{}
	}
}
