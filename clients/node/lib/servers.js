import http from "node:http";
import https from "node:https";

import { LONGEST, onAbort } from "./clock.js";

// The largest answer has 100 holders, each with a label.
const MAX_ANSWER = 1 << 20;

/** One or several servers of the same store, and which of them is asked next. */
export class Servers {
  #urls;
  #agents;
  #tls;
  #headers = { "Content-Type": "application/json", Accept: "application/json" };
  current = 0;

  constructor(urls, { token, ca, cert, key } = {}) {
    this.#urls = [urls].flat().map(base);
    if (this.#urls.length === 0) throw new TypeError("padlock: give the URL of at least one server");
    this.#tls = { ca, cert, key };
    this.#agents = {
      "http:": new http.Agent({ keepAlive: true }),
      "https:": new https.Agent({ keepAlive: true, ...this.#tls }),
    };
    if (token) this.#headers.Authorization = `Bearer ${token}`;
  }

  get count() {
    return this.#urls.length;
  }

  /** Moves on to the next server, unless another request has done so already. */
  passOver(server) {
    if (this.current === server) this.current = (server + 1) % this.count;
  }

  /**
   * Sends one request and returns `{ status, answer }`. It never throws: without an answer that a
   * server of padlock can have sent, the status is 0. `timeout` bounds the whole request, from the
   * name look-up to the last byte. `fresh` takes a new connection: after silence, the connections
   * that are kept may be dead too.
   */
  post(server, path, body, { timeout, signal, fresh = false }) {
    const url = new URL(`v1/${path}`, this.#urls[server]);
    const { request } = url.protocol === "https:" ? https : http;
    const text = Buffer.from(JSON.stringify(body));
    const options = {
      method: "POST",
      headers: { ...this.#headers, "Content-Length": text.length },
      agent: fresh ? false : this.#agents[url.protocol],
      ...(url.protocol === "https:" ? this.#tls : {}),
    };
    return new Promise((resolve) => {
      let sent;
      let forget;
      const end = (status, answer) => {
        clearTimeout(timer);
        forget?.();
        resolve({ status, answer });
      };
      const stop = (error) => {
        sent?.destroy();
        end(0, error ? { detail: `no server answers: ${error.message}` } : {});
      };
      const timer = setTimeout(stop, Math.min(timeout, LONGEST));
      if (signal?.aborted) return stop();
      forget = onAbort(signal, () => stop());
      try {
        sent = request(url, options, (reply) => {
          read(reply).then((answer) => end(statusOf(reply, answer), answer ?? {}), stop);
        });
        sent.on("error", stop);
        sent.end(text);
      } catch (error) {
        stop(error); // for example a token with characters that no header can have
      }
    });
  }
}

function base(url) {
  const parsed = new URL(url);
  if (!["http:", "https:"].includes(parsed.protocol)) {
    throw new TypeError(`padlock: the URL ${parsed.protocol}… must begin with http: or https:`);
  }
  if (parsed.username || parsed.password) {
    throw new TypeError("padlock: the URL has a user or a password; use the option token");
  }
  if (!parsed.pathname.endsWith("/")) parsed.pathname += "/";
  parsed.search = parsed.hash = "";
  return parsed;
}

// A status from 500 without JSON is that of a proxy, which does not know what the server has done.
// Neither does a success without JSON say anything about a lock, nor a 202 without retry_ms.
function statusOf(reply, answer) {
  const { statusCode: status } = reply;
  if (status === 202 && !Number.isFinite(answer?.retry_ms)) return 0;
  return answer || (status >= 300 && status < 500) ? status : 0;
}

/** Returns the JSON object of a reply, or undefined if there is none. */
async function read(reply) {
  const parts = [];
  let size = 0;
  for await (const part of reply) {
    size += part.length;
    if (size > MAX_ANSWER) return undefined;
    parts.push(part);
  }
  try {
    const answer = JSON.parse(Buffer.concat(parts).toString("utf8"));
    return typeof answer === "object" && answer !== null && !Array.isArray(answer) ? answer : undefined;
  } catch {
    return undefined;
  }
}
