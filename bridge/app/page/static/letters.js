// Dead letters: reason, body, retry. The list follows the bridge by itself.

import { get } from "./api.js";
import { showLetter } from "./dialogs.js";
import { $, counted, make, moment, number, setText, toast } from "./dom.js";
import { Rows } from "./tables.js";

const PAGE = matchMedia("(max-width: 720px)").matches ? 10 : 20;
const MOST = 1000; // rows; the command line has the others
const SOON = 2000; // at most, while a sink refuses record after record
const SELDOM = 10000; // marks change without the counts, by another operator's retry

export class Letters {
  constructor(changes) {
    this.changes = changes;
    this.wanted = PAGE;
    this.counts = "";
    this.loaded = 0;
    this.rows = new Rows($("letter-rows"), () => this.begin());
    $("letters-sink").addEventListener("change", () => this.restart());
    $("letters-more").addEventListener("click", () => this.load(Math.min(MOST, this.wanted + PAGE)));
    $("letters-retry-all").addEventListener("click", () => this.retryAll());
  }

  // Asks for the rows when the counts of a picture say that they changed, and now and then while there are any.
  show(picture) {
    const sinks = picture.sinks.map((each) => each.status);
    const total = sinks.reduce((sum, each) => sum + each.dead_letters, 0);
    setText($("letters-count"), number(total));
    $("letters-count").hidden = !total;
    this.offer(sinks.map((each) => each.name));
    const counts = JSON.stringify(sinks.map((each) => [each.name, each.dead_letters, each.parked, each.rejected, this.may()]));
    const age = Date.now() - this.loaded;
    if (counts === this.counts ? total && age >= SELDOM : age >= SOON) {
      this.counts = counts;
      this.load();
    }
  }

  may() {
    return this.changes.can("/v1/dead-letters/retry");
  }

  offer(names) {
    if (JSON.stringify(names) === this.names) return;
    this.names = JSON.stringify(names);
    const select = $("letters-sink");
    const chosen = select.value;
    select.replaceChildren(make("option", { value: "", text: "all" }), ...names.map((name) => make("option", { value: name, text: name })));
    select.value = names.includes(chosen) ? chosen : "";
  }

  restart() {
    return this.load(PAGE);
  }

  async load(wanted = this.wanted) {
    this.wanted = wanted;
    const sink = $("letters-sink").value;
    const mine = (this.loading = {});
    this.loaded = Date.now();
    let found;
    try {
      found = await get(`v1/dead-letters/chains?${new URLSearchParams({ limit: wanted, ...(sink ? { sink } : {}) })}`);
    } catch (error) {
      if (error.status !== 401) toast(`dead letters: ${error.message}`, "bad");
      return;
    }
    if (mine !== this.loading) return;
    const focused = document.activeElement?.closest("#letter-rows tr");
    this.rows.show(new Map(found.map((chain) => [chain.first.number, chain])), (row, chain) => this.update(row, chain));
    if (focused && !focused.isConnected) ($("letter-rows").querySelector("button") ?? $("letters-sink")).focus();
    $("letters-more").hidden = found.length < wanted || wanted === MOST;
    $("letters-none").hidden = found.length > 0;
    $("letters-retry-all").hidden = !(sink && found.length && this.may());
  }

  begin() {
    const button = (text, className, click) => make("button", { type: "button", className, text, on: { click } });
    const row = {
      number: make("td", { className: "n", data: { label: "No." } }),
      sink: make("td", { data: { label: "Sink" }, className: "whole" }),
      change: make("span", { className: "muted" }),
      key: make("span", { className: "mono" }),
      mark: make("b", { className: "mark" }),
      reason: make("span"),
      seen: make("td", { data: { label: "Seen" }, className: "nowrap" }),
      body: button("Body", "small", () => showLetter(row.letter)),
      retry: button("Retry", "small change", () => this.retry(row.letter)),
    };
    const object = make("td", { className: "object", data: { label: "Object" } }, row.change, " ", row.key);
    const why = make("td", { className: "why", data: { label: "Reason" } }, row.mark, row.reason);
    const actions = make("td", { className: "actions" }, row.body, row.retry);
    return { ...row, element: make("tr", {}, row.number, row.sink, object, why, row.seen, actions), set: (letter) => (row.letter = letter) };
  }

  update(row, { first: letter, rejected, parked }) {
    row.set(letter);
    const about = `${letter.resource} ${letter.key}`;
    setText(row.number, String(letter.number));
    setText(row.sink, letter.sink);
    setText(row.change, `${letter.op} ${letter.resource}`);
    setText(row.key, letter.key);
    const waiting = rejected + parked > 1 ? `${number(rejected)} rejected, ${number(parked)} parked` : letter.parked ? "parked" : "";
    setText(row.mark, [letter.retrying ? "retrying" : "", waiting].filter(Boolean).join(" "));
    row.mark.hidden = !row.mark.textContent;
    setText(row.reason, letter.reason);
    row.reason.title = letter.reason;
    setText(row.seen, moment(letter.time));
    row.seen.title = letter.time;
    row.body.setAttribute("aria-label", `Body of ${about}`);
    row.retry.setAttribute("aria-label", `Retry ${about}`);
    row.retry.hidden = !this.may() || letter.retrying || letter.parked;
  }

  async retry({ sink, number: which, resource, key }) {
    const more = (count) => (count > 1 ? `, and ${number(count - 1)} more of it follow` : "");
    const done = (answer) => (answer.count ? `${resource} ${key} is tried again${more(answer.count)}` : "it is no dead letter any more");
    if (await this.changes.send("v1/dead-letters/retry", { sink, numbers: [which] }, done)) this.load();
  }

  async retryAll() {
    const sink = $("letters-sink").value;
    const done = (answer) => `${counted(answer.count, "dead letter")} of ${sink} will be tried again`;
    if (await this.changes.send("v1/dead-letters/retry", { sink, numbers: null }, done)) this.load();
  }
}
