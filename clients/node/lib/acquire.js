import { randomBytes } from "node:crypto";
import os from "node:os";

import { now, sleep } from "./clock.js";
import { HeldError, RefusedError, UnavailableError, WaitTimeoutError } from "./errors.js";
import { Lock } from "./lock.js";

const LONGEST_POLL = 25_000; // the server answers 202 after that
const SHORTER_POLL = 10_000; // with several servers, a silent one is found sooner
const MAX_LABEL = 256; // bytes that every store keeps

/** The longest reason of a question, whose label has a fence before it. */
export const MAX_REASON = MAX_LABEL - 17;

const RELEASE_TIMEOUT = 5_000;
const HELD = "is held by another client; waitMs waits for it";
const WAITED = "is held by another client, also at the end of the wait";

/**
 * Takes a lock for a token. Each answer leads to one step:
 *
 *     200             the lock; an answer that comes too late is none
 *     202             the same again: the client keeps its place
 *     409, 410        the token has nothing: a new token after retry_ms, or the end
 *     429             the same again after a pause, while there is time to wait
 *     0, 503, 504, …  the same again at the next server, for as long as patience says
 *     other           the end
 *
 * At the end, a token that may have the lock, or a place among the waiters, is released. It is
 * "known" from the first answer that can mean one of both, also none.
 */
export async function acquire(servers, name, options, patience) {
  const { ttlMs = 30_000, waitMs = 0, signal } = options;
  const wish = { servers, name, signal, token: newToken(), asked: new Set(), known: false, lost: false, silent: 0 };
  const body = bodyOf(name, ttlMs, options);
  const end = now() + waitMs;
  const answerTime = Math.max(1000, patience / (servers.count + 1));
  for (;;) {
    if (signal?.aborted) abandon(wish);
    const at = servers.current;
    const sent = now();
    const poll = Math.max(0, Math.min(end - sent, servers.count > 1 ? SHORTER_POLL : LONGEST_POLL));
    wish.asked.add(at);
    const { status, answer } = await servers.post(
      at,
      "acquire",
      { ...body, token: wish.token, wait_ms: Math.floor(poll) },
      { timeout: poll + answerTime, signal, fresh: wish.silent > 0 },
    );
    const open = status < 200 || (status >= 500 && status !== 501);
    if (open || status < 300) wish.known = true;
    if (open) wish.lost = true; // this server may keep a place when another grants the lock
    if (signal?.aborted) abandon(wish, answer);
    if (status === 200 && granted(answer, wish.token)) {
      const leave = wish.lost && servers.count > 1 ? () => giveUp(wish, answer) : () => {};
      const lock = new Lock(servers, { name, token: wish.token, ttlMs, keepMs: options.keepMs, sent, answer, signal, patience, leave });
      if (lock.remaining() > 0) return lock;
    }
    await next(wish, at, status, answer, { end, patience, waits: waitMs > 0 });
  }
}

/** Prepares the next request after one without a lock, or throws. */
async function next(wish, at, status, answer, { end, patience, waits }) {
  const left = end - now();
  const fail = async (Kind, text) => {
    const given = giveUp(wish, answer);
    if (wish.silent === 0) await given; // servers that are silent now would only delay the error
    throw new Kind(`padlock: the lock ${JSON.stringify(wish.name)} ${text}`, answer);
  };
  const held = () => (waits ? fail(WaitTimeoutError, WAITED) : fail(HeldError, HELD));
  const why = answer.detail ?? (status > 0 ? `the status is ${status}` : "no server answers");
  if ((status >= 300 && status < 500 && ![409, 410, 429].includes(status)) || status === 501) {
    if (!wish.known) wish.asked.clear();
    await fail(RefusedError, `was refused: ${why}`);
  }
  switch (status) {
    case 202:
      wish.silent = 0;
      if (left <= 0) await held();
      return;
    case 409:
    case 410:
      if (wish.known) giveUp(wish, {}); // a request without an answer may still be carried out
      wish.asked.clear();
      if (left <= 0 && status === 409) await held();
      if (left <= 0) await fail(UnavailableError, `cannot be taken: ${why}`);
      wish.token = newToken();
      wish.known = wish.lost = false;
      wish.silent = 0;
      break;
    case 429:
      wish.servers.passOver(at);
      if (left <= 0) await fail(UnavailableError, `cannot be taken: ${why}`);
      break;
    default: // also a lock that came too late
      wish.silent++;
      wish.servers.passOver(at);
      if (left + patience <= 0) await fail(UnavailableError, `cannot be taken: ${why}`);
      if (wish.silent % wish.servers.count !== 0) return; // another server may answer at once
  }
  await sleep(pause(wish, answer, left), wish.signal);
}

/** The time before the next request: longer after each silence, but never beyond the wait. */
function pause(wish, answer, left) {
  const rounds = Math.floor(wish.silent / wish.servers.count);
  const most = Math.min(2000, 100 * 2 ** Math.min(rounds, 10));
  const asked = Number.isFinite(answer.retry_ms) && wish.silent === 0 ? answer.retry_ms : most;
  const time = Math.max(1, asked * (0.5 + Math.random() / 2));
  return left > 0 ? Math.min(time, left) : time;
}

/** Ends the wait because the caller does not want the lock any more. */
function abandon(wish, answer = {}) {
  giveUp(wish, answer); // in the background
  throw wish.signal.reason;
}

/**
 * Releases the token at each server that may have granted it. A request that got no answer may
 * arrive after the release, so the release goes out a second time.
 */
function giveUp({ servers, name, token, asked }, answer) {
  const body = { name, token, ...(Number.isInteger(answer.slot) ? { slot: answer.slot } : {}) };
  const at = [...asked];
  const once = () =>
    Promise.all(
      at.map((server) =>
        servers.post(server, "release", body, { timeout: RELEASE_TIMEOUT, fresh: true }),
      ),
    );
  if (at.length === 0) return Promise.resolve();
  setTimeout(once, 1000).unref();
  return once();
}

function granted({ token, valid_ms, fence }, mine) {
  return token === mine && Number.isFinite(valid_ms) && Number.isSafeInteger(fence);
}

function newToken() {
  return randomBytes(16).toString("hex");
}

/** The label with this process: as host and pid, others see those of the server. */
export function labelled(label = "", most = MAX_LABEL) {
  const full = `${label} ${os.hostname()}/${process.pid}`.trim();
  return Buffer.byteLength(full) <= most ? full : label;
}

function bodyOf(name, ttlMs, { shared, slots, label, keepMs, fenceAbove }) {
  const body = { name, ttl_ms: Math.round(ttlMs) };
  if (shared) body.shared = true;
  if (slots) body.slots = slots;
  body.label = labelled(label);
  if (keepMs) body.keep_ms = Math.round(keepMs);
  if (fenceAbove) body.fence_above = fenceAbove;
  return body;
}
