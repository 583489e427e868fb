// TLS with a CA of one's own, and tokens.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { Client, HeldError, LostError, RefusedError, UnavailableError } from "../index.js";
import { newName, Server } from "./kit.js";
import { rises } from "./safety.js";

test("a server with TLS and tokens", async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), "padlock-"));
  t.after(() => rm(folder, { recursive: true }));
  const [cert, key, tokens] = ["cert.pem", "key.pem", "tokens"].map((file) => path.join(folder, file));
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  await promisify(execFile)("openssl", ["req", "-x509", ...kind, ...subject, "-keyout", key, "-out", cert]);
  const token = "0123456789abcdefghij";
  await writeFile(tokens, `job ${token} acquire node\n`, { mode: 0o600 });
  const { url } = await Server.start(t, ["--tls-cert", cert, "--tls-key", key, "--token-file", tokens]);
  assert.match(url, /^https:/);
  const ca = await readFile(cert);
  assert.equal(await new Client(url, { ca, token }).withLock(newName(), () => "in"), "in");
  await assert.rejects(new Client(url, { ca }).lock(newName()), RefusedError);
  await assert.rejects(new Client(url, { ca, token: "wrong-0123456789abcdef" }).lock(newName()), RefusedError);
  await assert.rejects(new Client(url, { ca, token }).lock("another name"), RefusedError);
  const unknown = new Client(url, { token, patienceMs: 1 }).lock(newName());
  await assert.rejects(unknown, (error) => error instanceof UnavailableError && /self.signed certificate/.test(error.message));
});

test("status returns the holder, and breakLock ends the hold", async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), "padlock-"));
  t.after(() => rm(folder, { recursive: true }));
  const [tokens, token] = [path.join(folder, "tokens"), "0123456789abcdefghij"];
  await writeFile(tokens, `operator ${token} acquire,read,break\nreader r${token} read\nworker w${token} acquire\n`, { mode: 0o600 });
  const { url } = await Server.start(t, ["--allow-break", "--token-file", tokens]);
  const client = new Client(url, { token });
  const name = newName();
  assert.deepEqual((await client.status(name)).holders ?? [], []);
  const lock = await client.lock(name, { label: "stuck" });
  assert.match((await client.status(name)).holders[0].label, /^stuck/);
  await assert.rejects(client.breakLock(name, lock.fence + 1), HeldError);
  await assert.rejects(new Client(url, { token: `r${token}` }).breakLock(name, lock.fence), RefusedError);
  rises(await client.breakLock(name, lock.fence, { reason: "a test" }), lock.fence);
  await assert.rejects(lock.release(), LostError);
  await assert.rejects(new Client("http://127.0.0.1:9").status(name), UnavailableError);
  const worker = new Client(url, { token: `w${token}` });
  await assert.rejects(worker.ask(name), RefusedError);
  await worker.withLock(name, async (signal, mine) => {
    await assert.rejects(mine.asked(), RefusedError); // the token may not read
  });
});
