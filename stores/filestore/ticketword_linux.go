package filestore

type ticketState uint64

const (
	ticketGone ticketState = iota
	ticketWaits
	ticketWaitsShared
)

// ticketWord is the entry of one ticket in the queue. It has three parts: the state of the ticket
// (4 bits), the number of the ticket modulo 2^20 (20 bits), and the number of the pipe through
// which the waiter's process is woken (40 bits, see wakePipe).
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

// isFor reports whether t was written for the ticket with this number.
func (t ticketWord) isFor(number uint64) bool {
	return uint64(t)>>pipeBits&numberMask == number&numberMask && t != 0
}

func (t ticketWord) waits(number uint64) bool { return t.isFor(number) && t.state() != ticketGone }

// queueHeader is a copy of the four numbers before the tickets.
type queueHeader struct{ next, head, free, format uint64 }

// isNewer reports whether a newer padlock has made the queue in a format that this build does not
// know. Then this build must not change the queue.
func (h queueHeader) isNewer() bool { return isNewerFormat(h.format) }

const (
	queueMagic  = 0x504c4b51554555 // "PLKQUEU", seven bytes
	queueFormat = 0                // the newest format that this build knows
)

// isNewerFormat reports whether a newer padlock has made the queue, in a format that this build
// does not know. A format gets a new number only if an older build could damage a queue of that
// format. The argument is the last number in the header of the queue:
//
//	0                          the queue has format 0
//	queueMagic, then one byte  the byte is the number of the format
//	any other value            the number was damaged, and is ignored
func isNewerFormat(n uint64) bool { return n>>8 == queueMagic && byte(n) > queueFormat }

func (h queueHeader) empty() bool { return h.next == h.head }
