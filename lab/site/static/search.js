// The search of the site: pages that have all words of the input. Those with a word in the title are
// first, then those that have the whole input most often; the pages for contributors are last.
const script = document.currentScript;
const found = (pages, input) => {
  const words = input.trim().toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const score = (p) => {
    const title = words.filter((w) => p.title.toLowerCase().includes(w)).length;
    const often = p.text.toLowerCase().split(words.join(" ")).length - 1;
    return (/\/(decisions|internals)\//.test(p.url) ? 0 : 10000) + 1000 * title + often;
  };
  return pages
    .filter((p) => words.every((w) => (p.title + " " + p.text).toLowerCase().includes(w)))
    .sort((a, b) => score(b) - score(a))
    .slice(0, 15);
};
const start = async () => {
  const index = new URL("index.json", script.src);
  const pages = await (await fetch(index)).json();
  document.getElementById("search").addEventListener("input", (e) => {
    const items = found(pages, e.target.value).map((p) => {
      const a = document.createElement("a");
      a.href = new URL("." + p.url, index);
      a.textContent = p.title;
      const li = document.createElement("li");
      li.append(a);
      return li;
    });
    document.getElementById("found").replaceChildren(...items);
  });
};
start();
