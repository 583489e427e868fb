/** The base of all errors of this module. `answer` is that of the server, or empty. */
export class PadlockError extends Error {
  constructor(message, answer = {}) {
    super(message);
    this.name = new.target.name;
    this.answer = answer;
  }
}

/** Another client has the lock, now or at the end of the wait. */
export class Held extends PadlockError {}

/** The lock did not last until the end of the work: part of the work was not protected. */
export class Lost extends PadlockError {}

/** The servers or their store did not answer in time. The lock was given up. */
export class Unavailable extends PadlockError {}

/** The server refused the request: it is wrong, or a right is missing. */
export class Refused extends PadlockError {}
