// The pages work without this script: they reload themselves. With it, the server sends each change
// as an event, and the script replaces the part of the page that shows locks.
"use strict";

const region = document.getElementById("live");
const news = document.getElementById("news");
const state = document.getElementById("connection");
let source = null;
let failures = 0;
let retry = 0;

// show replaces the locks and keeps the keyboard where it was.
function show(html) {
	const focused = region.contains(document.activeElement) ? document.activeElement.id : "";
	region.innerHTML = html;
	if (focused) {
		document.getElementById(focused)?.focus({ preventScroll: true });
	}
	tell(region.querySelector("[data-summary]")?.textContent.trim() ?? "");
}

// tell lets a screen reader speak the summary, but only if it has changed.
function tell(summary) {
	if (news.textContent !== summary) {
		news.textContent = summary;
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
	source.addEventListener("locks", (event) => {
		failures = 0;
		connected("live", "live");
		show(event.data);
	});
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
	open();
}
