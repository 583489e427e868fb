package filestore

type ticketState uint64

const (
	ticketGone ticketState = iota
	ticketWaits
	ticketWaitsShared
)

// ticketWord is one entry of the queue.
type ticketWord uint64

const (
	pipeBits   = 40
	numberBits = 20
	pipeMask   = 1<<pipeBits - 1
	numberMask = 1<<numberBits - 1
)

func newTicketWord(state ticketState, number, pipe uint64) ticketWord {
	return ticketWord(uint64(state)<<(pipeBits+numberBits) | number&numberMask<<pipeBits | pipe&pipeMask)
}

func (t ticketWord) state() ticketState { return ticketState(t >> (pipeBits + numberBits)) }

func (t ticketWord) pipe() uint64 { return uint64(t) & pipeMask }

func (t ticketWord) shared() bool { return t.state() == ticketWaitsShared }

// is reports whether t was written for the ticket number.
func (t ticketWord) is(number uint64) bool {
	return uint64(t)>>pipeBits&numberMask == number&numberMask && t != 0
}

func (t ticketWord) waits(number uint64) bool { return t.is(number) && t.state() != ticketGone }

// queueHeader is a copy of the four numbers before the tickets.
type queueHeader struct{ next, head, free, format uint64 }

// newer reports whether this build must leave the queue alone.
func (h queueHeader) newer() bool { return isNewerFormat(h.format) }

const (
	queueMagic  = 0x504c4b51554555 // "PLKQUEU", seven bytes
	queueFormat = 0                // the newest that this build knows
)

// isNewerFormat reports whether word is the format of a queue of a newer padlock: queueMagic and
// one byte with the format, which rises when an older build could do harm to the queue. The queue
// of format 0 has eight zero bytes there. Anything else is garbage, which is worth as much as in
// the other fields.
func isNewerFormat(word uint64) bool { return word>>8 == queueMagic && byte(word) > queueFormat }

func (h queueHeader) empty() bool { return h.next == h.head }
