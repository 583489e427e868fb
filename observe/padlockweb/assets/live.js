// The pages work without this script: they reload themselves. With it, the server sends each change
// as an event, and the script changes the part of the page that shows locks.
"use strict";

const region = document.getElementById("live");
const news = document.getElementById("news");
const state = document.getElementById("connection");
const old = document.getElementById("old");
let source = null;
let failures = 0;
let retry = 0;
let heard = 0; // when the server last sent something

const silence = 12; // seconds without an event: one comes every two seconds, and may take eight if the store is silent
const reopen = 15; // seconds without an event after which another stream is tried

// show replaces what has changed. Everything else stays: what the visitor has selected, the scroll
// bars, and the focus of the keyboard. If the store cannot be read, the locks are those of the last
// time at which it could be.
function show(html) {
	const page = new DOMParser().parseFromString(`<div>${html}</div>`, "text/html");
	localize(page);
	const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
	updateChildren(region, page.body.firstChild);
	if (focused && document.activeElement.id !== focused) { // its row has moved
		document.getElementById(focused)?.focus({ preventScroll: true });
	}
	alive();
}

// update makes the node like fresh.
function update(node, fresh) {
	if (node.nodeType !== Node.ELEMENT_NODE) {
		if (node.data !== fresh.data) {
			node.data = fresh.data;
		}
		return;
	}
	for (const { name } of Array.from(node.attributes)) {
		if (!fresh.hasAttribute(name)) {
			node.removeAttribute(name);
		}
	}
	for (const { name, value } of Array.from(fresh.attributes)) {
		if (node.getAttribute(name) !== value) {
			node.setAttribute(name, value);
		}
	}
	updateChildren(node, fresh);
}

// updateChildren makes the children of node like those of fresh. An element with an id keeps its
// identity wherever it goes, another one only in its place.
function updateChildren(node, fresh) {
	const wanted = children(fresh);
	const ids = new Set(wanted.map((child) => child.id).filter(Boolean));
	const known = new Map();
	for (const child of children(node)) {
		if (child.id && ids.has(child.id)) {
			known.set(child.id, child);
		} else if (child.id) {
			child.remove();
		}
	}
	let at = node.firstChild;
	for (const next of wanted) {
		const found = next.id ? known.get(next.id) : partner(at, next);
		if (!found || found.nodeName !== next.nodeName) {
			node.insertBefore(next, at);
			continue;
		}
		if (!next.id) {
			while (at !== found) { // for example a note that is no longer true
				at = at.nextSibling;
				at.previousSibling.remove();
			}
		} else if (found !== at && found === at?.nextSibling) { // at has fallen: one row moves, not all others
			node.append(at);
		} else if (found !== at) {
			node.insertBefore(found, at);
		}
		at = found.nextSibling;
		update(found, next);
	}
	while (at) {
		const rest = at.nextSibling;
		at.remove();
		at = rest;
	}
}

// partner returns the node that next stands for, from at on: an element of the same kind and class,
// or else at itself.
function partner(at, next) {
	const isElement = next.nodeType === Node.ELEMENT_NODE;
	for (let node = at; node && isElement; node = node.nextSibling) {
		if (node.nodeName === next.nodeName && !node.id && node.getAttribute("class") === next.getAttribute("class")) {
			return node;
		}
	}
	return at && at.nodeName === next.nodeName && !at.id ? at : null;
}

// children returns the children of a node. Blanks between the parts of a table are nothing.
function children(node) {
	const isTable = /^(TABLE|THEAD|TBODY|TR|COLGROUP)$/.test(node.nodeName);
	for (const child of Array.from(node.childNodes)) {
		if (isTable && child.nodeType === Node.TEXT_NODE) {
			child.remove();
		}
	}
	return Array.from(node.childNodes);
}

// localize shows the times in the time zone of the visitor. Their titles have UTC.
function localize(root) {
	const two = (n) => String(n).padStart(2, "0");
	for (const element of root.querySelectorAll("time")) {
		const t = new Date(element.dateTime);
		const day = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`;
		element.textContent = `${day} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
	}
}

// alive is called for each event: the server answers. If the store does not, silent says for how
// many seconds.
function alive(silent = "") {
	failures = 0;
	heard = Date.now();
	if (silent) {
		connected(`no answer of the store for ${silent} s`, "lost");
		tell("The store does not answer.");
		return;
	}
	const stale = region.querySelector("[data-stale]");
	connected(stale ? "stale" : "live", stale ? "lost" : "live");
	tell(stale ? stale.dataset.stale : region.querySelector("[data-summary]")?.textContent.trim() ?? "");
}

// watch notices that the server hangs, or that the network is cut: then a stream does not end for
// a long time. A new stream may find the way that the old one has lost.
function watch() {
	const quiet = Math.floor((Date.now() - heard) / 1000);
	if (!source || quiet < silence) {
		return;
	}
	connected(`no answer for ${quiet} s`, "lost");
	tell("The server does not answer.");
	if (quiet % reopen === 0) {
		close();
		open();
	}
}

// tell lets a screen reader speak a sentence, but only if it has changed.
function tell(sentence) {
	if (news.textContent !== sentence) {
		news.textContent = sentence;
	}
}

function connected(text, kind) {
	if (state.textContent !== text) {
		state.textContent = text;
	}
	state.dataset.kind = kind;
	old.hidden = kind === "live" || text === "stale"; // if the store cannot be read, the page says so
}

function open() {
	if (source || document.hidden) {
		return;
	}
	clearTimeout(retry);
	source = new EventSource(region.dataset.live);
	source.addEventListener("locks", (event) => show(event.data));
	source.addEventListener("beat", (event) => alive(event.data));
	source.addEventListener("bye", () => { // the server stops, or this visit has ended
		close();
		connected("paused", "lost");
		again();
	});
	source.onerror = () => {
		close();
		connected("no connection, trying again", "lost");
		again();
	};
}

function close() {
	source?.close();
	source = null;
}

// again opens a new stream later. After some failures it asks for the whole page, which says what is
// wrong: for example that a login is needed.
function again() {
	clearTimeout(retry);
	failures++;
	retry = setTimeout(async () => {
		if (failures % 4 === 0) {
			try {
				const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
				if (answer.ok) {
					location.reload();
					return;
				}
			} catch {
				// there is no server
			}
		}
		open();
	}, Math.min(1000 * failures, 15000));
}

// A hidden tab has no stream: browsers allow six connections to a server, for all tabs together.
document.addEventListener("visibilitychange", () => {
	if (!region) {
		return;
	}
	if (document.hidden) {
		close();
		clearTimeout(retry);
		connected("paused", "lost");
	} else {
		failures = 0;
		heard = Date.now();
		open();
	}
});

document.addEventListener("keydown", (event) => {
	const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
	const filter = document.getElementById("filter");
	if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey && filter) {
		event.preventDefault();
		filter.focus();
		filter.select();
	}
});

if (region) {
	localize(region);
	heard = Date.now();
	open();
	setInterval(watch, 1000);
}
