import { acquire } from "./acquire.js";
import { Servers } from "./servers.js";

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
}
