import { now, onAbort, sleep } from "./clock.js";
import { LostError, RefusedError } from "./errors.js";

// How often the clock is read at least: after a suspension of the machine, timers are late.
const LOOK_EVERY = 1000;
const ASKED_EVERY = 1000; // between two looks for a question
const LOOK_TIMEOUT = 5000;
const RELEASE_TIMEOUT = 3000;
const RELEASE_PAUSES = [0, 100, 300, 700, 1500, 3000];

const aborted = Object.getOwnPropertyDescriptor(AbortSignal.prototype, "aborted").get;

/**
 * One hold on a name. It has one of these states:
 *
 *     held      renewed in the background, until `#until` at the latest
 *     lost      `#loss` is set, and the signal is aborted with it
 *     released  no more requests but those of release()
 *
 * Nothing leads from lost or released back to held: an answer that comes late revives no lock.
 */
export class Lock {
  #servers;
  #hold;
  #patience;
  #ttl;
  #until;
  #renewAt;
  #period;
  #keptUntil; // the name stays taken until then, even after a release
  #renewing = false;
  #silent = false; // the last renewal got no answer
  #timer;
  #over = new AbortController(); // ends a renewal that is under way at the release
  #released;
  #loss;
  #question;
  #lookAt = -Infinity; // when asked() sends its next request
  #looking; // the last request of asked()
  #controller = new AbortController();
  #forget = () => {};
  #leave;

  /** `leave` gives up the places that other servers may have for the token. */
  constructor(servers, { name, token, ttlMs, keepMs = 0, sent, answer, signal, patience, leave }) {
    this.#servers = servers;
    this.#leave = leave;
    this.#patience = patience;
    this.#ttl = Math.round(ttlMs);
    this.name = name;
    this.fence = answer.fence;
    this.slot = Number.isInteger(answer.slot) ? answer.slot : undefined;
    this.#hold = { name, token, ...(this.slot === undefined ? {} : { slot: this.slot }) };
    this.#until = sent + usable(answer.valid_ms);
    this.#period = Math.min(this.#ttl, answer.valid_ms);
    this.#renewAt = sent + this.#period / 3;
    this.#keptUntil = now() + keepMs;
    this.#watchSignal(signal);
    this.#arm();
  }

  /** Aborts with LostError when the lock is lost. Its `aborted` reads the clock. */
  get signal() {
    return this.#controller.signal;
  }

  /** The milliseconds for which the lock is valid without a renewal; 0 if it is over. */
  remaining() {
    this.#look();
    return this.#isOver() ? 0 : this.#until - now();
  }

  /** Throws LostError if the lock is lost. It sends no request. */
  check() {
    if (this.remaining() > 0) return;
    throw this.#loss ?? new LostError(`padlock: the lock ${JSON.stringify(this.name)} was released`);
  }

  /**
   * Resolves to the question that asks this holder to finish early, or to undefined. It sends at most
   * one request a second, so work may await it before each step.
   */
  async asked() {
    if (this.#question || this.slot !== undefined || this.remaining() <= 0) return this.#question;
    if (now() >= this.#lookAt) {
      this.#lookAt = now() + ASKED_EVERY;
      this.#looking = this.#lookForQuestion();
    }
    await this.#looking;
    return this.#question;
  }

  /** Asks the server once. Without an answer, the next call of asked() does so again. */
  async #lookForQuestion() {
    const at = this.#servers.current;
    const timeout = Math.max(20, Math.min(LOOK_TIMEOUT, this.#until - now()));
    const { status, answer } = await this.#servers.post(at, "status", { name: this.name }, { timeout, signal: this.#over.signal });
    if ((status >= 300 && status < 500 && status !== 429) || status === 501) {
      throw new RefusedError(`padlock: the lock ${JSON.stringify(this.name)}: ${answer.detail ?? status}`, answer);
    }
    if (status !== 200) return this.#servers.passOver(at);
    // A question with a smaller fence is to an earlier holder.
    if (answer.asked?.fence >= this.fence) this.#question = answer.asked;
  }

  /** Releases the lock, and throws LostError if it did not last until now. */
  release({ keepMs = 0 } = {}) {
    if (!this.#released) {
      this.#look();
      this.#end();
      this.#released = this.#release(Math.ceil(Math.max(keepMs, this.#keptUntil - now())));
    }
    return this.#released;
  }

  [Symbol.asyncDispose]() {
    return this.release();
  }

  // Timers are late after a pause of the process, and while work keeps the event loop busy. Code
  // that asks the signal must not get an old answer then.
  #watchSignal(outer) {
    const { signal } = this.#controller;
    Object.defineProperty(signal, "aborted", {
      get: () => {
        this.#look();
        return aborted.call(signal);
      },
    });
    Object.defineProperty(signal, "throwIfAborted", {
      value: () => {
        if (signal.aborted) throw signal.reason;
      },
    });
    this.#forget = onAbort(outer, () => this.#controller.abort(outer.reason));
  }

  #isOver() {
    return this.#loss !== undefined || this.#released !== undefined;
  }

  /** Ends the lock if its time is over. */
  #look() {
    if (!this.#isOver() && now() >= this.#until) this.#lose("no server extended it in time");
  }

  #lose(why) {
    if (this.#isOver()) return;
    this.#loss = this.#lost(why);
    this.#end();
    this.#controller.abort(this.#loss);
  }

  #lost(why) {
    return new LostError(`padlock: the lock ${JSON.stringify(this.name)} was lost: ${why}`);
  }

  #end() {
    clearTimeout(this.#timer);
    this.#forget();
    this.#over.abort();
  }

  /** Sets the timer. It does not keep the process running: that is the business of the work. */
  #arm() {
    clearTimeout(this.#timer);
    if (this.#isOver()) return;
    const next = this.#renewing ? this.#until : Math.min(this.#until, this.#renewAt);
    const wait = Math.max(0, Math.min(next - now(), LOOK_EVERY));
    this.#timer = setTimeout(() => this.#tick(), wait).unref();
  }

  #tick() {
    this.#look();
    if (!this.#isOver() && !this.#renewing && now() >= this.#renewAt) this.#renew();
    this.#arm();
  }

  /** Extends the lease. Without an answer, the next server is asked soon. */
  async #renew() {
    this.#renewing = true;
    const sent = now();
    const at = this.#servers.current;
    const timeout = Math.max(20, Math.min(this.#period / 6, this.#until - sent));
    const { status, answer } = await this.#servers.post(
      at,
      "extend",
      { ...this.#hold, ttl_ms: this.#ttl },
      { timeout, signal: this.#over.signal, fresh: this.#silent },
    );
    this.#renewing = false;
    this.#silent = status === 0;
    this.#look();
    if (this.#isOver()) return;
    if (status === 410) return this.#lose(answer.detail ?? "another client may have it");
    if (status === 200 && Number.isFinite(answer.valid_ms)) {
      this.#until = Math.max(this.#until, sent + usable(answer.valid_ms));
      this.#renewAt = sent + this.#period / 3;
    } else {
      this.#servers.passOver(at);
      this.#renewAt = now() + this.#period / 10;
    }
    this.#arm();
  }

  async #release(keepMs) {
    const end = Math.min(this.#until, now() + this.#patience);
    const body = { ...this.#hold, ...(keepMs > 0 ? { keep_ms: keepMs } : {}) };
    let unknown = false; // whether an earlier request may have released the lock
    for (const pause of RELEASE_PAUSES) {
      if (pause > 0) await sleep(pause);
      const at = this.#servers.current;
      const { status, answer } = await this.#servers.post(at, "release", body, {
        timeout: RELEASE_TIMEOUT,
        fresh: pause > 0,
      });
      if (status === 200 && typeof answer.outcome === "string") {
        // The lease may have ended since the work did, because the release took so long.
        const mine =
          answer.outcome === "released" ||
          (answer.outcome === "gone" && unknown) ||
          (answer.outcome === "expired" && now() >= this.#until);
        if (!mine) this.#loss ??= this.#lost("before the end of the work");
        break;
      }
      if (status >= 300 && status < 500 && status !== 429) break;
      unknown ||= status !== 503 && status !== 429;
      this.#servers.passOver(at);
      if (now() >= end) break; // its lease ends it
    }
    this.#leave(); // in the background
    if (this.#loss) throw this.#loss;
  }
}

/** The part of valid_ms for the work. The rest is for the timer, which may be late. */
function usable(validMs) {
  return validMs - Math.min(20, validMs / 20);
}
