// A program in TypeScript that uses every name. `TYPES=yes .ci/clients` compiles it.
import {
  Client, HeldError, LostError, PadlockError, RefusedError, UnavailableError, WaitTimeoutError, type Lock, type LockOptions, type Question,
} from "padlock-client";

const client = new Client(["http://127.0.0.1:7925"], { token: "x", ca: "", cert: "", key: "", patienceMs: 1 });
const options: LockOptions = {
  ttlMs: 1, waitMs: 1, shared: true, slots: 1, label: "", keepMs: 1, fenceAbove: 1, signal: AbortSignal.timeout(1),
};

export async function work(): Promise<number> {
  await using lock: Lock = await client.lock("a", options);
  lock.check();
  const slot: number | undefined = lock.slot;
  const question: Question | undefined = (await lock.asked()) ?? (await client.ask("b", "why"))?.asked;
  if (question?.reason) console.log(question.reason);
  await client.lock("b").then((other) => other.release({ keepMs: lock.remaining() }));
  const text: string = await client.withLock("c", options, (signal) => (signal.aborted ? "" : lock.name));
  try {
    return await client.withLock("d", async (_, { fence }) => fence + (slot ?? text.length));
  } catch (error) {
    if (error instanceof WaitTimeoutError) return client.breakLock("d", (await client.status("d")).fence ?? 0, { reason: "" });
    if (error instanceof HeldError) console.log(error.answer.holders?.[0]?.label);
    for (const Kind of [LostError, UnavailableError, RefusedError]) if (error instanceof Kind) console.log(error.message);
    throw error instanceof PadlockError ? error.answer : error;
  }
}
