// A worker of the soak that takes its locks over HTTP, with the client for Node.
//
// The engine of the soak starts it; see lab/soak/wire.go for the messages. The configuration
// has the kind of the client, the directory of the client and the URLs of the servers. Numbers that
// can be above 2^53 are BigInts.
import { readFileSync } from "node:fs";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

const order = JSON.parse(process.env.PADLOCK_SOAK_WORKER);
const base = BigInt(/"Base":(\d+)/.exec(process.env.PADLOCK_SOAK_WORKER)[1]);
const { Load: load, Worker: worker, Life: life } = order;
const [, client, ...urls] = order.Config.split(" ");
const { Client, HeldError, LostError, UnavailableError } = await import(`${client}/index.js`);

const ms = 1_000_000;
const slotCount = 2; // as in lab/soak/slots.go
const tick = 20;
const stall = 35n * BigInt(ms); // a worker that did not run for longer says so
const secondTry = 100n * BigInt(ms); // the client pauses for so long before it repeats a release

// The engine's clock counts while the machine is suspended, and hrtime does not. Node shows the
// former in steps of 10 ms, so the end of a step is awaited.
const uptime = () => BigInt(Math.round(Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 100)) * 10n * BigInt(ms);
const step = uptime();
while (uptime() === step);
const offset = ((gap) => (gap > -12n * BigInt(ms) && gap < 12n * BigInt(ms) ? 0n : gap))(uptime() - process.hrtime.bigint());
const now = () => process.hrtime.bigint() + offset;

const text = (value) =>
  JSON.stringify(value, (_, v) => (typeof v === "bigint" ? `#${v}#` : v)).replace(/"#(-?\d+)#"/g, "$1");

/** A connection to the engine. */
class Monitor {
  #socket = net.connect(order.Socket);
  #waiting = [];
  #rest = "";

  constructor() {
    const gone = () => process.exit(3);
    this.#socket.on("error", gone).on("end", gone);
    this.#socket.setEncoding("utf8").on("data", (part) => {
      const lines = (this.#rest + part).split("\n");
      this.#rest = lines.pop();
      for (const line of lines) this.#waiting.shift()(JSON.parse(line));
    });
  }

  send(call) {
    this.#socket.write(`${text(call)}\n`);
  }

  ask(call) {
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      this.send(call);
    });
  }

  log(op, event, at = now()) {
    this.send({ Do: "log", Event: { ...event, op, w: worker, life, at } });
  }

  /** Ends when the engine has got everything. */
  end() {
    return new Promise((resolve) => {
      this.#socket.removeAllListeners("end");
      this.#socket.end(resolve);
    });
  }
}

const monitor = new Monitor();
const padlock = new Client(urls);
const own = `${load.Prefix}own:${String.fromCharCode(97 + worker)}:a:${String.fromCharCode(97 + (life % 26))}`;
const first = (BigInt(worker) << 52n) | (BigInt(life) << 40n);
let holds = 0n;

const percent = (n) => Math.random() * 100 < n;
const between = (low, high) => low + Math.floor(Math.random() * (high - low + 1));

let last = now();
setInterval(() => {
  const at = now();
  if (at - last > stall) monitor.log("stalled", { call: last }, at);
  last = at;
}, tick).unref();

function draw() {
  if (percent(load.ToHot)) {
    return `${load.Prefix}hot:${between(0, load.Hot - 1)}:${(now() - base) / BigInt(load.Epoch)}`;
  }
  return `${load.Prefix}warm:${between(0, load.Warm - 1)}`;
}

async function turn() {
  const wait = percent(4 * load.Try) ? 0 : load.Wait;
  if (percent(5 * load.Own)) {
    const err = await take(own, wait, {});
    if (err === "") await take(own, 0, {}, true);
    return;
  }
  if (percent(load.Slots)) await take(`${load.Prefix}slots`, wait, { slots: slotCount });
  else await take(draw(), wait, percent(load.Shared) ? { shared: true } : {});
}

/** Takes a lock, works and releases it. The result is "" if the release was confirmed. */
async function take(name, wait, { shared = false, slots = 0 }, again = false) {
  const call = now();
  monitor.log("asked", { call, name, slots }, call);
  const ttl = between(load.MinTTL, Math.min(load.MaxTTL, 3 * load.MinTTL));
  const uses = { waited: wait > 0, slots, shared, with: slots ? "Slots" : shared ? "Shared" : "Acquire" };
  let lock;
  try {
    lock = await padlock.lock(name, { ttlMs: ttl / ms, waitMs: wait / ms, shared, slots });
  } catch (error) {
    if (!(error instanceof HeldError || error instanceof UnavailableError)) throw error;
    const err = error instanceof HeldError ? "held" : "uncertain";
    monitor.log("refused", { call, name, ttl, err, ...uses });
    if (again && err === "held") monitor.log("broken", { call, name, err: "I8 released, and held all the same" });
    return err;
  }
  holds += 1n;
  const about = { name: slots ? `${name}\x1fslot:${lock.slot}` : name, hold: first | holds }; // fast.SlotName
  let over = false;
  lock.signal.addEventListener("abort", () => over || monitor.log("lost", { err: "lost", ...about }));
  const until = claim(lock);
  monitor.log("acquired", { call, fence: lock.fence, ttl, until, ...about, ...uses });
  await work(lock, about, shared);
  over = true;
  monitor.log("begun", { err: "released", ...about });
  const begun = now();
  const before = claim(lock);
  let err = "";
  try {
    await lock.release();
    if (now() - begun >= secondTry) err = "uncertain"; // perhaps no request got an answer
  } catch (error) {
    if (!(error instanceof LostError)) throw error;
    err = "lost";
  }
  monitor.log("released", { call: begun, until: before, err, ...about });
  return err;
}

/** Until when the holder may rely on the lock. */
function claim(lock) {
  const at = now();
  const left = lock.remaining();
  return left > 0 ? at + BigInt(Math.floor(left * ms)) : 0n;
}

/** Changes the data that the lock protects. */
async function work(lock, about, shared) {
  const fence = shared ? 0 : lock.fence;
  const { Value: value } = await monitor.ask({ Do: "read", Name: about.name, Fence: fence });
  await sleep(between(load.MinHold, load.MaxHold) / ms, undefined, { signal: lock.signal }).catch(() => {});
  const until = claim(lock);
  if (until === 0n || shared) return;
  await monitor.ask({ Do: "write", Write: { Name: about.name, Fence: fence, Value: value, Until: until, Worker: worker, Hold: about.hold } });
}

monitor.log("started", {});
while (!(await monitor.ask({ Do: "over" })).OK) await turn();
await monitor.end();
process.exit(0); // locks that were given up end with their leases
