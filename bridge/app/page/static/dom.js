// Elements and texts. Whatever comes from a cluster or a destination becomes text, never markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  const { text, className, on, data, ...attributes } = options;
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(data ?? {})) made.dataset[name] = value;
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  for (const [event, handler] of Object.entries(on ?? {})) made.addEventListener(event, handler);
  made.append(...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const one = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

// Counts, which may be shortened. A number that names something (a sequence number, a dead letter) is never one.
export const number = (value) => (value < 1e6 ? whole.format(value) : short.format(value));
export const rate = (value) => (value === 0 ? "0" : value < 0.1 ? "<0.1" : value < 100 ? one.format(value) : number(Math.round(value)));

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return "<1 s";
  if (value < 120) return `${whole.format(value)} s`;
  if (value < 7200) return `${whole.format(value / 60)} min`;
  return value < 172800 ? `${whole.format(value / 3600)} h` : `${whole.format(value / 86400)} d`;
}

export function bytes(value) {
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024 || unit === "TiB") return `${unit === "B" ? whole.format(value) : one.format(value)} ${unit}`;
    value /= 1024;
  }
  return "";
}

// Times of the bridge are UTC; a person reads the time of the own clock, as on the chart.
const two = (value, digits = 2) => String(value).padStart(digits, "0");
export function clock(time, precise = false) {
  const at = new Date(time);
  const end = precise ? `.${two(at.getMilliseconds(), 3)}` : "";
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}${end}`;
}
export function moment(time) {
  const at = new Date(time);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(time)}`;
}

export const counted = (count, word) => `${number(count)} ${word}${count === 1 ? "" : "s"}`;
export const clip = (text, most) => (text.length > most ? `${text.slice(0, Math.max(1, most - 1))}…` : text);

export function toast(text, kind = "") {
  const shown = make("p", { className: `toast ${kind}`, text });
  $("toasts").append(shown);
  setTimeout(() => shown.remove(), kind === "bad" ? 12000 : 6000);
}

export function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // cut, or no JSON
  }
}
