import os from "node:os";

// The monotonic clock of Node stops on Linux while the machine is suspended, but leases go on. The
// uptime of the machine counts that time. It is coarse, so only its leaps are added. On macOS it has
// whole seconds of the date, which would leap all the time.
const LEAP = 100;
const counted = process.platform !== "darwin";

/** The longest time of a timer of Node: a longer one would end at once. */
export const LONGEST = 2 ** 31 - 1;

let gap = uptime() - performance.now();
let suspended = 0;

/** The milliseconds of a clock that never goes back, and counts while the machine is suspended. */
export function now() {
  const steady = performance.now();
  if (!counted) return steady;
  const leap = uptime() - steady - gap;
  if (Math.abs(leap) > LEAP) {
    gap += leap;
    suspended += Math.max(0, leap);
  }
  return steady + suspended;
}

function uptime() {
  try {
    return os.uptime() * 1000;
  } catch {
    return performance.now(); // a sandbox does not show the uptime
  }
}

/** Waits, and keeps the process running. It ends early, without an error, if the signal aborts. */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      forget();
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, LONGEST));
    const forget = onAbort(signal, end);
  });
}

const followers = new WeakMap();

/**
 * Calls `call` when the signal aborts, and returns a function that forgets that. All locks and waits
 * of a signal have one listener together, because Node warns of more than ten.
 */
export function onAbort(signal, call) {
  if (!signal) return () => {};
  let calls = followers.get(signal);
  if (!calls) {
    followers.set(signal, (calls = new Set()));
    signal.addEventListener("abort", () => [...calls].forEach((each) => each()), { once: true });
  }
  calls.add(call);
  return () => calls.delete(call);
}
