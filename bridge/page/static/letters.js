// Dead letters: reason, body, retry.

import { get } from "./api.js";
import { showLetter } from "./dialogs.js";
import { $, counted, make, moment, number, toast } from "./dom.js";

const PAGE = 50;
const EVERY = 5000; // at most, while a sink refuses record after record

export class Letters {
  constructor(changes) {
    this.changes = changes;
    this.known = "";
    this.last = 0;
    this.may = null;
    $("letters-refresh").addEventListener("click", () => this.load());
    $("letters-sink").addEventListener("change", () => this.load());
    $("letters-more").addEventListener("click", () => this.load(this.last));
    $("letters-retry-all").addEventListener("click", () => this.retryAll());
  }

  show(picture) {
    const counts = picture.sinks.map((each) => [each.status.name, each.status.dead_letters]);
    const total = counts.reduce((sum, [, count]) => sum + count, 0);
    $("letters-count").textContent = number(total);
    $("letters-count").hidden = !total;
    const may = this.changes.can("/v1/dead-letters/retry");
    const known = JSON.stringify(counts);
    if (known === this.known && may === this.may) return;
    this.offer(counts.map(([name]) => name));
    this.known = known;
    this.may = may;
    // Each change of the counts, and not each picture. Who has paged on is not thrown back to the beginning.
    if (this.planned || $("letter-rows").childElementCount > PAGE) return;
    const wait = Math.max(0, (this.loaded ?? 0) + EVERY - Date.now());
    this.planned = setTimeout(() => {
      this.planned = 0;
      this.load();
    }, wait);
  }

  offer(names) {
    const select = $("letters-sink");
    const chosen = select.value;
    select.replaceChildren(make("option", { value: "", text: "all" }), ...names.map((name) => make("option", { value: name, text: name })));
    select.value = names.includes(chosen) ? chosen : "";
  }

  async load(after = 0) {
    const sink = $("letters-sink").value;
    const query = new URLSearchParams({ after, limit: PAGE, ...(sink ? { sink } : {}) });
    const mine = (this.loading = {});
    this.loaded = Date.now();
    let found;
    try {
      found = await get(`v1/dead-letters?${query}`);
    } catch (error) {
      if (error.status !== 401) toast(`dead letters: ${error.message}`, "bad");
      return;
    }
    if (mine !== this.loading) return;
    this.last = found.at(-1)?.number ?? this.last;
    const rows = found.map((letter) => this.row(letter));
    const focused = document.activeElement?.closest("#letter-rows tr")?.dataset.number;
    if (after) $("letter-rows").append(...rows);
    else $("letter-rows").replaceChildren(...rows);
    if (focused) (document.querySelector(`#letter-rows tr[data-number="${focused}"] button`) ?? $("letters-refresh")).focus();
    $("letters-more").hidden = found.length < PAGE;
    $("letters-none").hidden = $("letter-rows").childElementCount > 0;
    $("letters-retry-all").hidden = !(sink && found.length && this.may);
  }

  row(letter) {
    const about = `${letter.resource} ${letter.key}`;
    const button = (text, label, click, className = "small") => make("button", { type: "button", className, text, "aria-label": label, on: { click } });
    const actions = [button("Body", `Body of ${about}`, () => showLetter(letter))];
    if (this.may && !letter.retrying && !letter.parked) {
      actions.push(button("Retry", `Retry ${about}`, () => this.retry(letter), "small change"));
    }
    const mark = letter.retrying ? "retrying" : letter.parked ? "parked" : "";
    return make(
      "tr",
      { data: { number: letter.number } },
      make("td", { className: "n", text: String(letter.number), data: { label: "No." } }),
      make("td", { text: letter.sink, data: { label: "Sink" }, className: "whole" }),
      make("td", { data: { label: "Object" } }, make("span", { className: "muted", text: `${letter.op} ${letter.resource} ` }), make("span", { className: "mono", text: letter.key })),
      make("td", { data: { label: "Reason" }, className: "why" }, ...(mark ? [make("b", { className: "mark", text: mark })] : []), letter.reason),
      make("td", { text: moment(letter.time), title: letter.time, data: { label: "Seen" }, className: "nowrap" }),
      make("td", { className: "actions" }, ...actions),
    );
  }

  async retry({ sink, number: which, resource, key }) {
    const done = (answer) => (answer.count ? `${resource} ${key} is tried again` : "it is no dead letter any more");
    if (await this.changes.send("v1/dead-letters/retry", { sink, numbers: [which] }, done)) this.load();
  }

  async retryAll() {
    const sink = $("letters-sink").value;
    const done = (answer) => `${counted(answer.count, "dead letter")} of ${sink} will be tried again`;
    if (await this.changes.send("v1/dead-letters/retry", { sink, numbers: null }, done)) this.load();
  }
}
