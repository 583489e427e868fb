// The shop works without scripts too. With them, the cart is changed in place,
// here and in every other tab.
const cart = document.getElementById("cart");
const others = new BroadcastChannel("cart");
const page = document.body.dataset;
let asked = 0;
let shown = 0;

// Each answer shows the session as it was when it was asked for; one that was
// overtaken by a later one is dropped.
async function refresh() {
	const number = ++asked;
	const answer = await fetch("/cart");
	const text = await answer.text();
	if (answer.ok && number > shown) {
		shown = number;
		cart.innerHTML = text;
	}
}

// tell makes the other tabs look again.
function tell() {
	others.postMessage(page.user);
}

async function post(url) {
	try {
		const answer = await fetch(url, { method: "POST", redirect: "manual" });
		if (answer.type !== "opaqueredirect") { // not done, and the answer says why
			alert(await answer.text());
		}
		tell();
		await refresh();
	} catch {
		alert("The shop does not answer.");
	}
}

// A second click on a button makes the browser drop the answer to the first
// one. At a login, that answer has the cookie with the new id.
let sent = false;

document.addEventListener("submit", (event) => {
	const url = new URL(event.target.action);
	if (sent) {
		event.preventDefault();
	} else if (url.pathname.startsWith("/cart/")) {
		event.preventDefault();
		post(url);
	} else {
		sent = true;
	}
});

const count = () => Number(cart.querySelector(".count")?.textContent ?? 0);

// The button adds one of each product, by as many requests at once, and says what became of them.
const all = document.getElementById("all");
all.hidden = false;
all.addEventListener("click", async () => {
	try {
		const before = count();
		const urls = [...document.querySelectorAll("form.buy")].map((form) => form.action);
		const answers = await Promise.all(urls.map((url) => fetch(url, { method: "POST", redirect: "manual" })));
		const ok = answers.filter((answer) => answer.type === "opaqueredirect").length;
		tell();
		await refresh();
		document.getElementById("result").textContent =
			`${urls.length} requests, ${ok} answered OK, ${ok - (count() - before)} of them lost.`;
	} catch {
		alert("The shop does not answer.");
	}
});

// Another tab may have logged in or out: then this page is out of date as a whole.
others.addEventListener("message", ({ data }) => {
	if (data !== page.user) {
		location.replace("/");
	} else {
		refresh();
	}
});
tell(); // this page comes after a log-in, a log-out or an order, say
// Also when the page comes back from the browser's memory, by the back button.
addEventListener("pageshow", (event) => {
	if (event.persisted) {
		sent = false;
		refresh();
	}
});
