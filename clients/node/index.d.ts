/** How to reach the servers. Times are in milliseconds. */
export interface ClientOptions {
  /** A token of the server's token file. */
  token?: string;
  /** The certificates of the CA that signed the server's, in PEM. By default, those of Node. */
  ca?: string | Buffer | Array<string | Buffer>;
  /** A certificate of the client and its key, in PEM. */
  cert?: string | Buffer;
  key?: string | Buffer;
  /** How long a request without an answer is repeated, beyond the wait. The default is 10,000. */
  patienceMs?: number;
}

/** What lock and withLock take. Times are in milliseconds. */
export interface LockOptions {
  /** The lease, 30,000 by default. It is renewed after each third of it. */
  ttlMs?: number;
  /** How long to wait for the lock, in the order of the store. By default there is one try. */
  waitMs?: number;
  /** Shares the lock with others that share it. */
  shared?: boolean;
  /** Up to so many clients hold the name at the same time. */
  slots?: number;
  /** Shown to those who look at the lock. */
  label?: string;
  /** The name stays taken for at least so long, even after a release. */
  keepMs?: number;
  /** The fence will be above this one. */
  fenceAbove?: number;
  /** Ends the wait, and aborts the signal of the lock. */
  signal?: AbortSignal;
}

/** Work under a lock. The signal aborts with LostError when the lock is lost. */
export type Work<T> = (signal: AbortSignal, lock: Lock) => T | PromiseLike<T>;

/** A client of one server, or of several servers of the same store. */
export class Client {
  constructor(urls: string | URL | Array<string | URL>, options?: ClientOptions);
  /** Takes a lock. Release it, or declare it with `await using`. */
  lock(name: string, options?: LockOptions): Promise<Lock>;
  /** Runs work under a lock. It throws LostError if the lock did not last until the end of the work. */
  withLock<T>(name: string, work: Work<T>): Promise<T>;
  withLock<T>(name: string, options: LockOptions, work: Work<T>): Promise<T>;
  /** Returns the holders of a name. The answer may be outdated when it arrives. */
  status(name: string, options?: { slot?: number }): Promise<Answer>;
  /**
   * Ends the holds of the name while it has this fence of status(), and returns the new fence. The
   * work under the lock does not end: it finds out at its next renewal. HeldError means that the
   * name has another fence by now, and that nothing was broken. After UnavailableError, look again:
   * the lock may be broken.
   */
  breakLock(name: string, fence: number, options?: { slot?: number; reason?: string }): Promise<number>;
  /**
   * Asks the holder of a name to finish early, and tells it the reason. The result is undefined if
   * nobody has the lock. The lock does not end: the holder finds the question with Lock.asked(), and
   * finishes when it can, or goes on. A question lasts for a minute: repeat it.
   */
  ask(name: string, reason?: string): Promise<{ asked: Question; earlier: boolean } | undefined>;
}

/** Who asks a holder to finish early, and why. */
export interface Question {
  /** Why, with the process that asks. */
  reason?: string;
  host?: string;
  pid?: number;
  since_ms?: number;
  /** Holders with this fence, or a smaller one, are asked. */
  fence: number;
}

/** One hold on a name, renewed in the background until it is released or lost. */
export class Lock implements AsyncDisposable {
  private constructor();
  readonly name: string;
  /** Grows with each holder. Send it with each write, and let the resource refuse smaller ones. */
  readonly fence: number;
  /** The number of the permit, with the option slots. */
  readonly slot: number | undefined;
  /** Aborts with LostError when the lock is lost. Its `aborted` reads the clock. */
  readonly signal: AbortSignal;
  /** The milliseconds for which the lock is valid without a renewal; 0 if it is over. */
  remaining(): number;
  /** Throws LostError if the lock is lost. It sends no request. */
  check(): void;
  /**
   * Resolves to the question that asks this holder to finish early, or to undefined. It sends at most
   * one request a second, of status, so work may await it before each step. RefusedError means that
   * the token may not read.
   */
  asked(): Promise<Question | undefined>;
  /** Releases the lock, and throws LostError if it did not last until now. */
  release(options?: { keepMs?: number }): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** The answer of the server: an object with the fields of docs/http-api.md. */
export interface Answer {
  error?: string;
  detail?: string;
  retry_ms?: number;
  fence?: number;
  waiters?: number;
  holders?: Array<{
    host?: string;
    pid?: number;
    label?: string;
    shared: boolean;
    foreign: boolean;
    cooling: boolean;
    since_ms?: number;
    until_ms?: number;
  }>;
  asked?: Question;
  [field: string]: unknown;
}

/** The base of all errors of this module. */
export class PadlockError extends Error {
  constructor(message: string, answer?: Answer);
  /** That of the server, or empty. */
  readonly answer: Answer;
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
