// The pages work without this script: they reload themselves. With it, the server sends each change
// as an event, and the script replaces the part of the page that shows locks.
"use strict";

const region = document.getElementById("live");
const news = document.getElementById("news");
const state = document.getElementById("connection");
let source = null;
let failures = 0;
let retry = 0;
let heard = 0; // when the server last sent something

const silence = 15; // seconds without an event, of which the server sends one in five

// show replaces the locks and keeps the keyboard where it was. If the store cannot be read, the
// locks are those of the last time at which it could be.
function show(html) {
	const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
	region.innerHTML = html;
	if (focused) {
		document.getElementById(focused)?.focus({ preventScroll: true });
	}
	alive();
}

// alive is called for each event: the server answers.
function alive() {
	failures = 0;
	heard = Date.now();
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
	if (quiet % silence === 0) {
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
	state.textContent = text;
	state.dataset.kind = kind;
}

function open() {
	if (source || document.hidden) {
		return;
	}
	clearTimeout(retry);
	source = new EventSource(region.dataset.live);
	source.addEventListener("locks", (event) => show(event.data));
	source.addEventListener("beat", alive);
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
	heard = Date.now();
	open();
	setInterval(watch, 1000);
}
