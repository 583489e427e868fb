// Locks while servers are killed, answers are lost and the client is paused.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import http from "node:http";
import os from "node:os";
import { createInterface } from "node:readline";
import { after as atEnd, test } from "node:test";
import { fileURLToPath } from "node:url";

import { Client, LostError, RefusedError, UnavailableError } from "../index.js";
import { now } from "../lib/clock.js";
import { after, ask, newName, proxy, Server, until } from "./kit.js";
import { isAlone, rises } from "./safety.js";

const { url } = await Server.start({ after: atEnd });

test("a repeat after a lost answer finds the same hold", async (t) => {
  const way = await proxy(t, () => url, (path, count) => (count === 1 ? "lose" : "pass"));
  const lock = await new Client(way.url).lock(newName(), { ttlMs: 6000 });
  await until(() => way.of("extend").length >= 2, "a renewal after a lost one");
  await lock.release();
  assert.deepEqual(way.of("acquire").map((s) => s.answer.fence), [lock.fence, lock.fence]);
  assert.deepEqual(way.of("release").map((s) => s.answer.outcome), ["released", "gone"]);
});

test("a repeat after a lost answer finds the same permit", async (t) => {
  const way = await proxy(t, () => url, (path, count) => (count === 1 ? "lose" : "pass"));
  const name = newName();
  const lock = await new Client(way.url).lock(name, { slots: 2 });
  assert.deepEqual(way.of("acquire").map((s) => s.answer.slot), [lock.slot, lock.slot]);
  await lock.release();
});

test("a lock that nobody can extend ends, and its late answers revive nothing", async (t) => {
  const way = await proxy(t, () => url, (path) => (path === "extend" ? "hang" : "pass"));
  const lock = await new Client(way.url).lock(newName(), { ttlMs: 6000 });
  if (!lock.signal.aborted) await once(lock.signal, "abort");
  assert(lock.signal.reason instanceof LostError);
  await until(() => way.of("extend").length > 0, "an extend was carried out");
  await assert.rejects(lock.release(), LostError);
});

test("the signal tells the truth while the event loop is busy", async (t) => {
  const way = await proxy(t, () => url, (path) => (path === "extend" ? "drop" : "pass"));
  const lock = await new Client(way.url).lock(newName(), { ttlMs: 1000, waitMs: 60_000 });
  const signal = lock.signal;
  let told = false;
  signal.addEventListener("abort", () => (told = true));
  for (const end = now() + 1200; now() < end; );
  assert.equal(signal.aborted, true);
  assert.equal(told, true);
  assert.throws(() => signal.throwIfAborted(), LostError);
});

test("a lock of which nothing is known is given up at every server", async (t) => {
  let name;
  let ways;
  for (let patienceMs = 300; patienceMs < 30_000; patienceMs *= 2) {
    name = newName();
    ways = [
      await proxy(t, () => url, (path) => (path === "acquire" ? "lose" : "pass")),
      await proxy(t, () => url, (path) => (path === "acquire" ? "lose" : "pass")),
    ];
    const client = new Client(ways.map((way) => way.url), { patienceMs });
    await assert.rejects(client.lock(name), UnavailableError);
    if (ways.every((way) => way.asked.length > 0)) break; // otherwise the first one was too slow
  }
  await until(() => ways.every((way) => way.of("release").length > 1), "two releases at each server");
  await (await new Client(url).lock(name, { waitMs: 60_000 })).release();
});

test("holder and waiter go on at the second server when the first is killed", async (t) => {
  const [first, second] = [await Server.start(t), await Server.start(t)];
  const way = await proxy(t, () => second.url, () => "pass");
  const name = newName();
  const holder = await new Client([first.url, way.url]).lock(name, { ttlMs: 9000 });
  const waiter = new Client([first.url, way.url]).lock(name, { waitMs: 100_000 });
  await until(async () => (await ask(second.url, "status", { name })).answer.waiters === 1, "the waiter is there");
  await first.kill();
  await until(() => way.of("extend").some((s) => s.status === 200), "a renewal at the second server");
  await holder.release();
  const got = await waiter;
  rises(got.fence, holder.fence);
  await got.release();
});

test("no two clients are inside while servers are killed in turn", async (t) => {
  const servers = [await Server.start(t), await Server.start(t)];
  const name = newName();
  let inside = 0;
  let grants = 0;
  let fence = 0;
  let stop = false;
  const work = [0, 1, 2, 3].map(async (i) => {
    const way = await proxy(t, () => servers[0].url, (path, count) => ["pass", "pass", "lose", "pass", "drop"][(count + i) % 5]);
    const client = new Client([way.url, servers[1].url]);
    while (!stop) {
      await client.withLock(name, { waitMs: 100_000, ttlMs: 20_000 }, async (signal, lock) => {
        isAlone(++inside);
        rises(lock.fence, fence);
        fence = lock.fence;
        grants++;
        await after(5);
        inside--;
      });
    }
  });
  for (let kill = 0; kill < 4; kill++) {
    const server = servers[kill % 2];
    const before = grants;
    await server.kill();
    await until(() => grants > before + 4, "grants by the other server");
    await server.start();
    await until(() => grants > before + 8, "grants after the restart");
  }
  stop = true;
  await Promise.all(work);
  t.diagnostic(`${grants} grants`);
});

test("after a pause of the process, the signal has ended before the work asks it", async (t) => {
  const name = newName();
  const child = spawn(process.execPath, [fileURLToPath(new URL("paused.js", import.meta.url)), url, name], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  assert.equal((await lines.next()).value, "working");
  child.kill("SIGSTOP");
  // The lease of the paused client runs out, and another client gets the lock.
  const other = await new Client(url).lock(name, { waitMs: 100_000 });
  child.kill("SIGCONT");
  assert.equal((await lines.next()).value, "stopped by LostError");
  assert.equal((await lines.next()).value, "rejected with LostError");
  other.check();
  await other.release();
});

test("valid_ms counts from the moment of sending", async (t) => {
  const late = http.createServer(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { token } = JSON.parse(Buffer.concat(parts).toString());
    const came = now();
    await until(() => now() >= came + 300, "300 ms are over");
    reply.end(JSON.stringify({ token, fence: 1, valid_ms: 60_000, outcome: "released" }));
  });
  late.listen(0, "127.0.0.1");
  await once(late, "listening");
  t.after(() => {
    late.closeAllConnections();
    late.close();
  });
  const lock = await new Client(`http://127.0.0.1:${late.address().port}`).lock("a", { waitMs: 1000 });
  assert(lock.remaining() <= 59_700);
  await lock.release();
});

test("answers that no server of padlock sends are no locks", async (t) => {
  const grant = { token: "MINE", fence: 1, valid_ms: 30000 };
  const answers = {
    page: [200, "<html>log in</html>", UnavailableError],
    foreign: [200, JSON.stringify({ ...grant, token: "another-0123456789" }), UnavailableError],
    endless: [200, JSON.stringify({ ...grant, valid_ms: "soon" }), UnavailableError],
    big: [200, JSON.stringify({ ...grant, more: "x".repeat(2 << 20) }), UnavailableError],
    accepted: [202, "{}", UnavailableError],
    never: [202, JSON.stringify({ retry_ms: null }), UnavailableError],
    empty: [204, "", UnavailableError],
    proxy: [502, "<html>bad gateway</html>", UnavailableError],
    over: [410, JSON.stringify({ error: "expired" }), UnavailableError], // the lease was over before the answer
    redirect: [307, "", RefusedError],
  };
  const fake = http.createServer(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const { token } = JSON.parse(Buffer.concat(parts).toString());
    const [status, text] = answers[request.url.split("/")[1]];
    reply.writeHead(status, { Location: url }).end(text.replace("MINE", token));
  });
  fake.listen(0, "127.0.0.1");
  await once(fake, "listening");
  t.after(() => {
    fake.closeAllConnections();
    fake.close();
  });
  for (const [path, [, , Kind]] of Object.entries(answers)) {
    const patienceMs = Kind === RefusedError ? 10_000 : 1; // a refusal ends it at once
    const client = new Client(`http://127.0.0.1:${fake.address().port}/${path}`, { patienceMs });
    await assert.rejects(client.lock(newName()), Kind, path);
  }
});

/** A server whose answers are those of the function; undefined is none. */
async function fake(t, answer) {
  const seen = [];
  const server = http.createServer(async (request, reply) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const path = request.url.split("/").pop();
    const sent = JSON.parse(Buffer.concat(parts).toString());
    seen.push({ path, ...sent });
    const it = await answer(path, seen.filter((s) => s.path === path).length, sent);
    if (it) reply.writeHead(it[0]).end(JSON.stringify(it[1]));
    else request.socket.destroy();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, of: (path) => seen.filter((s) => s.path === path) };
}

test("a refusal gives up what an earlier answer may have left", async (t) => {
  for (const first of [[202, { retry_ms: 1 }], undefined]) {
    const server = await fake(t, (path, count) => {
      if (path === "release") return [200, { outcome: "released" }];
      return [first, [202, { retry_ms: 1 }], [403, {}]][count - 1];
    });
    await assert.rejects(new Client(server.url).lock("a", { waitMs: 60_000 }), RefusedError);
    await until(() => server.of("release").length === 2, "two releases");
    assert.equal(server.of("release")[0].token, server.of("acquire")[0].token);
  }
});

test("a lost poll leaves no place at its server", async (t) => {
  const silent = await fake(t, () => undefined);
  const other = await fake(t, (path, count, { token }) => {
    if (path === "acquire") return [200, { token, fence: 1, valid_ms: 30_000 }];
    return [200, { outcome: "released" }];
  });
  const lock = await new Client([silent.url, other.url]).lock("a", { waitMs: 60_000 });
  assert.equal(silent.of("release").length, 0);
  await lock.release();
  await until(() => silent.of("release").length === 2, "two releases at the silent server");
  for (const { token } of silent.of("release")) assert.equal(token, silent.of("acquire")[0].token);
});

test("the label names this process", async (t) => {
  const server = await fake(t, (path, count, { token }) => {
    if (path === "acquire") return [200, { token, fence: 1, valid_ms: 30_000 }];
    return [200, { outcome: "released" }];
  });
  const here = `${os.hostname()}/${process.pid}`;
  for (const [label, want] of [[undefined, here], ["nightly", `nightly ${here}`], ["é".repeat(128), "é".repeat(128)]]) {
    await (await new Client(server.url).lock("a", { label })).release();
    assert.equal(server.of("acquire").at(-1).label, want);
  }
});

test("a release in time has protected the work", async (t) => {
  for (const [outcome, lost] of [["expired", false], ["taken", true]]) {
    const server = await fake(t, async (path, count, { token }) => {
      if (path === "acquire") return [200, { token, fence: 1, valid_ms: 2000 }];
      if (path === "extend") return [503, {}];
      if (count === 1) return [503, {}];
      const over = now() + 2200;
      await until(() => now() >= over, "the lease is over");
      return [200, { outcome }];
    });
    let lock;
    do lock = await new Client(server.url).lock("a", { ttlMs: 2000 });
    while (lock.remaining() < 1000); // this process may have stood still
    if (lost) await assert.rejects(lock.release(), LostError);
    else await lock.release();
  }
});

test("patience without end", async () => {
  const client = new Client(url, { patienceMs: Infinity });
  const lock = await client.lock(newName(), { signal: AbortSignal.timeout(20_000) });
  await lock.release();
});

// There, Node has the uptime in whole seconds of the date.
test("on macOS the clock does not leap", async () => {
  const { platform, uptime } = { platform: process.platform, uptime: os.uptime };
  try {
    Object.defineProperty(process, "platform", { value: "darwin" });
    os.uptime = () => Math.floor(performance.now() / 1000);
    const clock = await import("../lib/clock.js?darwin");
    const [began, steady] = [clock.now(), performance.now()];
    while (performance.now() < steady + 2500) clock.now();
    const extra = clock.now() - began - (performance.now() - steady);
    assert(extra < 500, `${extra} ms too many`);
  } finally {
    Object.defineProperty(process, "platform", { value: platform });
    os.uptime = uptime;
  }
});
