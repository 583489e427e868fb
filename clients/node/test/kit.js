// Servers and a proxy for the tests. `padlock` must be in the PATH, and $PADLOCK_STORE must be a
// store that several processes share: run "go test -run TestHTTPPage/node ./cmd/padlock/internal/command".
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http from "node:http";
import { createInterface } from "node:readline";

import { now } from "../lib/clock.js";

export const LONG = 60_000; // for events that must come, on a busy machine

export const newName = () => `node ${randomUUID()} \u00e9/../%2F`;

export const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks again until ok returns something true, and returns that. */
export async function until(ok, what) {
  for (const end = now() + LONG; now() < end; await after(5)) {
    const value = await ok();
    if (value) return value;
  }
  throw new Error(`still not: ${what}`);
}

/** A "padlock serve --api" that can be killed and started again at the same address. */
export class Server {
  static async start(t, args = []) {
    const server = new Server();
    server.args = args;
    await server.start("127.0.0.1:0");
    t.after(() => server.kill());
    return server;
  }

  async start(address = new URL(this.url).host) {
    const args = ["serve", "--json", "--api", "--listen", address, ...this.args];
    this.process = spawn("padlock", args, { stdio: ["ignore", "pipe", "ignore"] });
    for await (const line of createInterface(this.process.stdout)) {
      this.url = JSON.parse(line).url;
      return;
    }
    throw new Error("padlock serve has ended");
  }

  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exit = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await exit;
  }
}

/**
 * A proxy before a server. `mode(path, count)` says what becomes of the count-th request to a path:
 * "pass", "lose" (carried out, but the answer is lost), "cut" (the same, but at once), "drop" (not
 * carried out) or "hang" (carried out, but never answered). `seen` has the answers of the server, and
 * `asked` what it was asked.
 */
export async function proxy(t, target, mode) {
  const seen = [];
  const asked = [];
  const counts = {};
  const server = http.createServer(async (request, reply) => {
    const path = request.url.split("/").pop();
    counts[path] = (counts[path] ?? 0) + 1;
    const what = mode(path, counts[path]);
    const parts = [];
    try {
      for await (const part of request) parts.push(part);
      if (what === "drop") return request.socket.destroy();
      asked.push({ path, sent: JSON.parse(Buffer.concat(parts).toString()) });
      if (what === "cut") request.socket.destroy();
      const { authorization, ...rest } = request.headers;
      const headers = { "Content-Type": rest["content-type"], ...(authorization ? { authorization } : {}) };
      const answer = await fetch(new URL(request.url, target()), { method: "POST", headers, body: Buffer.concat(parts) });
      const json = await answer.json();
      seen.push({ path, sent: JSON.parse(Buffer.concat(parts).toString()), status: answer.status, answer: json });
      if (what === "hang" || what === "cut") return;
      if (what === "lose") return request.socket.destroy();
      reply.writeHead(answer.status, { "Content-Type": "application/json" }).end(JSON.stringify(json));
    } catch {
      request.socket.destroy();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, asked, of: (path) => seen.filter((s) => s.path === path) };
}

/** Sends one request by hand. */
export async function ask(url, path, body) {
  const reply = await fetch(new URL(`v1/${path}`, url), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return { status: reply.status, answer: await reply.json() };
}
