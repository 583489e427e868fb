/**
 * Locks that hold across processes and machines, over HTTP ("padlock serve --api").
 *
 *     import { Client } from "padlock-client";
 *
 *     const padlock = new Client("http://127.0.0.1:7925");
 *     await padlock.withLock("invoice:42", { waitMs: 60_000 }, async (signal, lock) => {
 *       await save(invoice, { fence: lock.fence, signal });
 *     });
 *
 * It needs Node alone. See docs/http-api.md of padlock for the rules.
 */
export { Client } from "./lib/client.js";
export { Lock } from "./lib/lock.js";
export {
  HeldError,
  LostError,
  PadlockError,
  RefusedError,
  UnavailableError,
  WaitTimeoutError,
} from "./lib/errors.js";
