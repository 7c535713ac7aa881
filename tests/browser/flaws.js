// What a script can judge of WCAG: names, labels, contrast of 4.5; and no scrolling sideways.
() => {
  const flaws = [];
  const name = (each) => (each.getAttribute("aria-label") || each.textContent || each.title || "").trim();
  for (const each of document.querySelectorAll("button, a[href], [role=button], summary")) if (!name(each)) flaws.push(["no name", each.outerHTML]);
  for (const each of document.querySelectorAll("input, select")) if (!each.labels.length && !each.getAttribute("aria-label")) flaws.push(["no label", each.outerHTML]);
  for (const each of document.querySelectorAll("img")) if (!each.hasAttribute("alt")) flaws.push(["no alt", each.outerHTML]);
  for (const each of document.querySelectorAll("[aria-labelledby]")) if (!document.getElementById(each.getAttribute("aria-labelledby"))) flaws.push(["no target", each.outerHTML]);
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size !== ids.length) flaws.push(["an id twice"]);
  if (!document.documentElement.lang || !document.title || document.querySelectorAll("main").length !== 1) flaws.push(["lang, title or main"]);
  if (document.querySelector("[style]:not(.chart *)") ) flaws.push(["inline style", document.querySelector("[style]:not(.chart *)").outerHTML]);
  if (document.documentElement.scrollWidth > innerWidth) flaws.push(["wider than the screen", document.documentElement.scrollWidth]);

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (each) => { for (; each; each = each.parentElement) { const found = rgb(getComputedStyle(each).backgroundColor); if (found[3] > 250) return found; } return [255, 255, 255]; };
  for (const each of document.querySelectorAll("body *")) {
    const words = [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!words || !each.checkVisibility() || each.closest("svg, button:disabled, .skip, .toasts")) continue;
    const [a, b] = [light(rgb(getComputedStyle(each).color)), light(ground(each))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) flaws.push(["contrast", ((a + 0.05) / (b + 0.05)).toFixed(2), each.className, each.textContent.slice(0, 40)]);
  }
  return flaws;
}
