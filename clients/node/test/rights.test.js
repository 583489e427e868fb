// TLS with a CA of one's own, and tokens.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { Client, Refused, Unavailable } from "../index.js";
import { newName, Server } from "./kit.js";

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
  await assert.rejects(new Client(url, { ca }).lock(newName()), Refused);
  await assert.rejects(new Client(url, { ca, token: "wrong-0123456789abcdef" }).lock(newName()), Refused);
  await assert.rejects(new Client(url, { ca, token }).lock("another name"), Refused);
  await assert.rejects(new Client(url, { token, patienceMs: 1 }).lock(newName()), Unavailable);
});
