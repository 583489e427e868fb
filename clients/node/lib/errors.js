/** The base of all errors of this module. `answer` is that of the server, or empty. */
export class PadlockError extends Error {
  constructor(message, answer = {}) {
    super(message);
    this.name = new.target.name;
    this.answer = answer;
  }
}

/** Another client has the lock. */
export class HeldError extends PadlockError {}

/** The wait ended, and another client still has the lock. */
export class WaitTimeoutError extends HeldError {}

/** The lock did not last until the end of the work: part of the work was not protected. */
export class LostError extends PadlockError {}

/** The servers or their store did not answer in time. The lock was given up. */
export class UnavailableError extends PadlockError {}

/** The server refused the request: it is wrong, or a right is missing. */
export class RefusedError extends PadlockError {}
