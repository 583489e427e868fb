import { acquire, labelled, MAX_REASON } from "./acquire.js";
import { HeldError, RefusedError, UnavailableError } from "./errors.js";
import { Servers } from "./servers.js";

const ASK_TIMEOUT = 20_000;

/** A client of one server, or of several servers of the same store. */
export class Client {
  #servers;
  #patience;

  constructor(urls, { patienceMs = 10_000, ...options } = {}) {
    this.#servers = new Servers(urls, options);
    this.#patience = patienceMs;
  }

  /** Takes a lock. Release it, or declare it with `await using`. */
  lock(name, options = {}) {
    return acquire(this.#servers, name, options, this.#patience);
  }

  /** Runs work under a lock: `withLock(name, work)` or `withLock(name, options, work)`. */
  async withLock(name, options, work) {
    if (typeof options === "function") [options, work] = [{}, options];
    if (typeof work !== "function") throw new TypeError("padlock: withLock needs a function");
    const lock = await this.lock(name, options);
    let result;
    let failure; // boxed, because work can throw anything
    try {
      result = await work(lock.signal, lock);
    } catch (error) {
      failure = { error };
    }
    try {
      await lock.release();
    } catch (lost) {
      if (failure && failure.error !== lost) lost.cause ??= failure.error;
      throw lost;
    }
    if (failure) throw failure.error;
    return result;
  }

  /** Returns the holders of a name. The answer may be outdated when it arrives. */
  status(name, { slot } = {}) {
    return this.#ask("status", { name, slot });
  }

  /** Ends the holds of the name while it has this fence of status(), and returns the new fence. */
  async breakLock(name, fence, { slot, reason = "" } = {}) {
    const answer = await this.#ask("break", { name, slot, fence, reason });
    return answer.fence;
  }

  /** Asks the holder of a name to finish early. The result is undefined if nobody has the lock. */
  async ask(name, reason = "") {
    try {
      return await this.#ask("ask", { name, reason: labelled(reason, MAX_REASON) });
    } catch (error) {
      if (error.answer?.status === 410) return undefined;
      throw error;
    }
  }

  async #ask(path, body) {
    const at = this.#servers.current;
    const { status, answer } = await this.#servers.post(at, path, body, { timeout: ASK_TIMEOUT });
    if (status === 200) return answer;
    const refused = status >= 300 && status < 500 && status !== 429;
    if (!refused) this.#servers.passOver(at);
    const Kind = status === 409 ? HeldError : refused || status === 501 ? RefusedError : UnavailableError;
    const why = answer.detail ?? (status > 0 ? `the status is ${status}` : "no server answers");
    throw new Kind(`padlock: the lock ${JSON.stringify(body.name)}: ${why}`, answer);
  }
}
