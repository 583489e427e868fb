// The package as its users see it: the program of the page, the syntax, the end of the process.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import * as padlock from "../index.js";
import { newName, Server } from "./kit.js";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs a program in a folder that has the package installed. */
async function run(t, text, ...args) {
  const folder = await mkdtemp(path.join(tmpdir(), "padlock-"));
  t.after(() => rm(folder, { recursive: true }));
  await mkdir(path.join(folder, "node_modules"));
  await symlink(root, path.join(folder, "node_modules", "padlock-client"));
  const file = path.join(folder, "program.mjs");
  await writeFile(file, text);
  return promisify(execFile)(process.execPath, [file, ...args]);
}

test("the program of the page runs", async (t) => {
  const page = await readFile(path.join(root, "README.md"), "utf8");
  assert(page.split(/\s+/).length <= 430, "the page has more than 430 words");
  const { url } = await Server.start(t);
  const [, program] = /^```js\n(.*?)^```$/ms.exec(page);
  const { stdout } = await run(t, program.replaceAll("http://127.0.0.1:7925", url));
  assert.match(stdout, /^fence \d+\n$/);
});

test("await using releases the lock", async (t) => {
  const { url } = await Server.start(t);
  const name = newName();
  const lock = await new padlock.Client(url).lock(name);
  await lock[Symbol.asyncDispose]();
  await (await new padlock.Client(url).lock(name)).release();
  try {
    new Function("async () => { await using lock = null; }");
  } catch {
    return t.diagnostic(`Node ${process.version} has no "await using"`);
  }
  const program = `
    import { Client } from "padlock-client";
    const client = new Client(process.argv[2]);
    for (let i = 0; i < 2; i++) { await using lock = await client.lock(process.argv[3]); }
    console.log("done");`;
  assert.equal((await run(t, program, url, name)).stdout, "done\n");
});

test("a lock that is not released does not keep the process running", async (t) => {
  const { url } = await Server.start(t);
  const program = `
    import { Client } from "padlock-client";
    await new Client(process.argv[2]).lock(process.argv[3]);
    console.log("the end");`;
  assert.equal((await run(t, program, url, newName())).stdout, "the end\n");
});

test("the types name what the module exports", async () => {
  const types = await readFile(path.join(root, "index.d.ts"), "utf8");
  const named = [...types.matchAll(/^export class (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(named.sort(), Object.keys(padlock).sort());
});

test("the package has every file that it needs", async () => {
  const { files, exports } = JSON.parse(await readFile(path.join(root, "package.json"), "utf8"));
  const there = await readdir(root);
  for (const file of [...files, ...Object.values(exports["."])]) assert(there.includes(path.basename(file)), file);
});
