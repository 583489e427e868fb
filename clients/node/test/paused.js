// A program that works in steps under a lock, for a test that pauses it.
import { Client, LostError } from "../index.js";

const [, , url, name] = process.argv;
try {
  await new Client(url).withLock(name, { ttlMs: 3000, waitMs: 60_000 }, async (signal) => {
    for (let step = 0; ; step++) {
      if (signal.aborted) {
        console.log(`stopped by ${signal.reason.name}`);
        return;
      }
      if (step === 10) console.log("working");
      await new Promise((resolve) => setImmediate(resolve));
    }
  });
  console.log("the lock lasted");
} catch (error) {
  if (!(error instanceof LostError)) throw error;
  console.log("rejected with LostError");
}
