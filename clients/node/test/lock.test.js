// Locks against a real server.
import assert from "node:assert/strict";
import { once } from "node:events";
import { after as atEnd, test } from "node:test";

import { Client, HeldError, LostError, RefusedError, UnavailableError, WaitTimeoutError } from "../index.js";
import { after, ask, newName, proxy, Server, until } from "./kit.js";
import { now } from "../lib/clock.js";
import { isAlone, rises } from "./safety.js";

const { url } = await Server.start({ after: atEnd });

const waiters = async (name) => (await ask(url, "status", { name })).answer.waiters;

test("one client at a time works under a lock", async () => {
  const name = newName();
  let inside = 0;
  let done = 0;
  await Promise.all(
    [1, 2, 3, 4].map(async () => {
      const client = new Client(url);
      for (let i = 0; i < 5; i++) {
        await client.withLock(name, { waitMs: 100_000 }, async () => {
          isAlone(++inside);
          await after(1);
          inside--;
          done++;
        });
      }
    }),
  );
  assert.equal(done, 20);
});

test("a lock that is held is refused, with its holder, and fences grow", async () => {
  const client = new Client(url);
  const name = newName();
  const first = await client.lock(name, { label: "first" });
  await assert.rejects(client.lock(name), (error) => {
    assert(error instanceof HeldError && !(error instanceof WaitTimeoutError));
    assert.match(error.answer.holders[0].label, /^first/);
    return true;
  });
  await assert.rejects(client.lock(name, { waitMs: 200 }), WaitTimeoutError);
  await first.release();
  const second = await client.lock(name, { fenceAbove: first.fence + 1000 });
  rises(second.fence, first.fence + 1000);
  await second.release();
});

test("many locks and waits may have one signal", async () => {
  const warnings = [];
  const note = (warning) => warnings.push(warning.message);
  process.on("warning", note);
  const client = new Client(url);
  const name = newName();
  const many = new AbortController();
  const { signal } = many;
  const locks = await Promise.all(Array.from({ length: 12 }, () => client.lock(newName(), { signal })));
  const held = await client.lock(name);
  const waits = Promise.allSettled(Array.from({ length: 12 }, () => client.lock(name, { signal, waitMs: 60_000 })));
  await until(async () => (await waiters(name)) > 0, "waiters");
  many.abort(new Error("enough"));
  for (const { status, reason } of await waits) assert.deepEqual([status, reason?.message], ["rejected", "enough"]);
  for (const lock of locks) {
    assert.equal(lock.signal.reason?.message, "enough");
    await lock.release();
  }
  await held.release();
  process.off("warning", note);
  assert.deepEqual(warnings, []);
});

test("a lock is renewed for longer than its lease", async (t) => {
  const way = await proxy(t, () => url, () => "pass");
  const lock = await new Client(way.url).lock(newName(), { ttlMs: 9000 });
  await until(() => way.of("extend").length >= 4, "four renewals");
  lock.check();
  assert.equal(lock.signal.aborted, false);
  await lock.release();
  assert.equal(way.of("release")[0].answer.outcome, "released");
});

test("the signal ends the work when the lock is lost", async (t) => {
  const way = await proxy(t, () => url, () => "pass");
  const client = new Client(way.url);
  const name = newName();
  const work = client.withLock(name, { ttlMs: 6000 }, async (signal, lock) => {
    const { token } = way.of("acquire")[0].sent;
    assert.equal((await ask(url, "release", { name, token })).answer.outcome, "released");
    if (!signal.aborted) await once(signal, "abort");
    assert(signal.reason instanceof LostError);
    assert.throws(() => lock.check(), LostError);
    assert.equal(lock.remaining(), 0);
    throw new Error("interrupted");
  });
  await assert.rejects(work, (error) => {
    assert(error instanceof LostError);
    assert.equal(error.cause.message, "interrupted");
    return true;
  });
});

test("a loss that only the release sees is an error too", async (t) => {
  const way = await proxy(t, () => url, () => "pass");
  const name = newName();
  const lock = await new Client(way.url).lock(name);
  await ask(url, "release", { name, token: way.of("acquire")[0].sent.token });
  await assert.rejects(lock.release(), LostError);
  await assert.rejects(lock.release(), LostError); // a second one tells the same
});

test("withLock passes on results and errors", async () => {
  const client = new Client(url);
  const name = newName();
  assert.equal(await client.withLock(name, async (signal, lock) => lock.fence > 0), true);
  await assert.rejects(client.withLock(name, () => Promise.reject(new RangeError("mine"))), RangeError);
  await assert.rejects(client.withLock(name, () => { throw undefined; }), (error) => error === undefined);
  assert.equal(await client.withLock(name, () => 7), 7);
});

test("permits, shared locks and keepMs", async () => {
  const client = new Client(url);
  const name = newName();
  const [a, b] = [await client.lock(name, { slots: 2 }), await client.lock(name, { slots: 2 })];
  assert.deepEqual([a.slot, b.slot].sort(), [0, 1]);
  await assert.rejects(client.lock(name, { slots: 2 }), HeldError);
  await a.release();
  const c = await client.lock(name, { slots: 2 });
  assert.equal(c.slot, a.slot);
  await Promise.all([b.release(), c.release()]);

  const both = [await client.lock(name, { shared: true }), await client.lock(name, { shared: true })];
  await assert.rejects(client.lock(name), HeldError);
  await Promise.all(both.map((lock) => lock.release()));

  await (await client.lock(name, { keepMs: 60_000 })).release();
  await assert.rejects(client.lock(name), HeldError);
  const other = newName();
  await (await client.lock(other)).release({ keepMs: 60_000 });
  await assert.rejects(client.lock(other), HeldError);
});

test("a holder finds out that it is asked, with one request a second", async (t) => {
  const way = await proxy(t, () => url, () => "pass");
  const client = new Client(way.url);
  const name = newName();
  assert.equal(await client.ask(name, "nobody"), undefined);
  const lock = await client.lock(name);
  const began = now();
  assert.deepEqual(await Promise.all([lock.asked(), lock.asked(), lock.asked()]), [undefined, undefined, undefined]);
  assert.equal(way.of("status").length, 1);
  const first = await client.ask(name, "deploy");
  assert.deepEqual([first.asked.fence, first.earlier], [lock.fence, false]);
  assert.equal((await client.ask(name, "drain")).earlier, true);
  const question = await until(async () => {
    const found = await lock.asked();
    if (now() < began + 1000) assert.equal(way.of("status").length, 1);
    return found;
  }, "asked");
  assert.match(question.reason, new RegExp(`^deploy \\S+/${process.pid} `));
  lock.check();
  await lock.release();
});

test("only the holder that was seen is asked", async () => {
  const client = new Client(url);
  const name = newName();
  const slot = await client.lock(name, { slots: 2 });
  const reader = await client.lock(name, { shared: true, fenceAbove: slot.fence });
  await client.ask(name);
  const later = await client.lock(name, { shared: true, fenceAbove: reader.fence + 1000 });
  assert.equal((await reader.asked()).fence, reader.fence);
  assert.equal(await later.asked(), undefined);
  assert.equal(await slot.asked(), undefined);
  await Promise.all([reader.release(), later.release(), slot.release()]);
  const next = await client.lock(name);
  assert.equal(await next.asked(), undefined);
  await next.release();
});

test("a waiter gets the lock after the release, and keeps its place over several requests", async (t) => {
  const client = new Client(url);
  const way = await proxy(t, () => url, (path, count) => (count <= 2 ? "cut" : "pass"));
  const name = newName();
  const first = await client.lock(name);
  const second = new Client(way.url).lock(name, { waitMs: 100_000 });
  await until(() => way.asked.length === 3, "three requests");
  assert.equal(new Set(way.asked.map(({ sent }) => sent.token)).size, 1);
  await until(async () => (await waiters(name)) > 0, "the waiter is there");
  assert.equal(await waiters(name), 1);
  await first.release();
  rises((await second).fence, first.fence);
  await (await second).release();
});

test("the caller's signal ends a wait, and the place is given up", async () => {
  const client = new Client(url);
  const name = newName();
  const first = await client.lock(name);
  const caller = new AbortController();
  const second = client.lock(name, { waitMs: 100_000, signal: caller.signal });
  await until(async () => (await waiters(name)) === 1, "the waiter is there");
  caller.abort(new RangeError("enough"));
  await assert.rejects(second, RangeError);
  await until(async () => (await waiters(name)) === 0, "the waiter is gone");
  await assert.rejects(client.lock(name, { signal: caller.signal }), RangeError);
  await first.release();
  await (await client.lock(name)).release();
});

test("the caller's signal reaches the work, and is no loss", async () => {
  const caller = new AbortController();
  const result = await new Client(url).withLock(newName(), { signal: caller.signal }, async (signal) => {
    caller.abort("stop");
    return signal.reason;
  });
  assert.equal(result, "stop");
});

test("a wrong request is refused", async () => {
  await assert.rejects(new Client(url).lock(""), RefusedError);
  await assert.rejects(new Client(url).lock(newName(), { slots: 1.5 }), RefusedError);
  assert.throws(() => new Client("ftp://127.0.0.1"), TypeError);
  assert.throws(() => new Client([]), TypeError);
});

test("without a server the lock is unavailable", async () => {
  await assert.rejects(new Client("http://127.0.0.1:9", { patienceMs: 100 }).lock(newName()), UnavailableError);
});
