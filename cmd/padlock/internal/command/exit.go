package command

// Exit statuses of padlock itself. run also returns the exit status of its command, or 128 + N if
// signal N killed the command.
const (
	exitUsage       = 64  // the command line or the URL of the store is wrong
	exitUnavailable = 69  // the store cannot be reached, or cannot answer the question
	exitSystem      = 71  // the system's limits do not leave padlock enough processes or memory
	exitHeld        = 75  // the lock is held, or was not free in time
	exitSuperseded  = 76  // --newest: a newer run has got the lock
	exitLost        = 79  // the lock was lost while the command ran
	exitTimeout     = 124 // --at-most was reached
	exitCannotRun   = 126 // the command cannot be run
	exitNotFound    = 127 // there is no such command
)

const exitStatuses = `  COMMAND's own, or 128+N if signal N killed it
  64   the command line or the store's URL is wrong
  69   the store cannot be reached; command not run
  71   the system cannot start another process (a limit is reached); command not run
  75   the lock is held, or was not free in time (-E changes it); command not run
  76   --newest: a newer run has got the lock; command not run
  79   the lock was lost while the command ran; the command was ended
  124  --at-most was reached; the command was ended
  126  the command cannot be run        127  the command was not found

If COMMAND itself exits with 75 or 79, a message says so; -E and --lost-exit-code
choose other statuses.`

// failure is the error with which a verb ends: its message and its exit status.
type failure struct {
	status int
	note   note
}

func (f *failure) Error() string { return f.note.Message }
