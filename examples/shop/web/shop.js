// The shop works without scripts too. With them, the cart is changed in place,
// here and in every other tab.
const cart = document.getElementById("cart");
const others = new BroadcastChannel("cart");
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

async function post(url) {
	try {
		const answer = await fetch(url, { method: "POST", redirect: "manual" });
		if (answer.type !== "opaqueredirect") { // not done, and the answer says why
			alert(await answer.text());
		}
		others.postMessage("changed");
		await refresh();
	} catch {
		alert("The shop does not answer.");
	}
}

document.addEventListener("submit", (event) => {
	const url = new URL(event.target.action);
	if (url.pathname.startsWith("/cart/")) {
		event.preventDefault();
		post(url);
	}
});

const all = document.getElementById("all");
all.hidden = false;
all.addEventListener("click", () => {
	for (const form of document.querySelectorAll("form.buy")) {
		post(form.action);
	}
});

others.addEventListener("message", refresh);
// Also when the page comes back from the browser's memory, by the back button.
addEventListener("pageshow", (event) => event.persisted && refresh());
