// The live tail: bounded in the page as on the server; a pause collects what comes.

import { $, bytes, clock, counted, make, number, pretty } from "./dom.js";

const MOST = 300;
const SIGNS = { added: "+", updated: "~", deleted: "−", sync: "=" };
const TYPING = 400;

export class Tail {
  constructor(choose) {
    this.choose = choose; // the query of the stream
    this.running = false;
    this.paused = false;
    this.kept = [];
    this.missed = 0;
    $("tail-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.run(!this.running);
    });
    $("tail-pause").addEventListener("click", () => this.pause(!this.paused));
    $("tail-clear").addEventListener("click", () => {
      $("tail-lines").replaceChildren();
      this.missed = 0;
      this.note();
    });
    for (const field of ["resource", "namespace", "name"]) {
      $(`tail-${field}`).addEventListener("input", () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.running && this.choose(this.query()), TYPING);
      });
    }
    $("tail-sink").addEventListener("change", () => this.running && this.choose(this.query()));
  }

  show(picture) {
    const names = JSON.stringify(picture.sinks.map((each) => each.status.name));
    if (names === this.names) return;
    this.names = names;
    const select = $("tail-sink");
    const chosen = select.value;
    select.replaceChildren(...JSON.parse(names).map((name) => make("option", { value: name, text: name })));
    if (JSON.parse(names).includes(chosen)) select.value = chosen;
    // It was started before the first picture, or its sink is gone.
    else if (this.running) this.choose(this.query());
  }

  query() {
    if (!this.running) return "";
    const chosen = { sink: $("tail-sink").value };
    for (const field of ["resource", "namespace", "name"]) {
      if ($(`tail-${field}`).value.trim()) chosen[field] = $(`tail-${field}`).value.trim();
    }
    return `?${new URLSearchParams(chosen)}`;
  }

  run(running) {
    this.running = running;
    if (!running) this.pause(false);
    $("tail-start").textContent = running ? "Stop" : "Start";
    $("tail-pause").disabled = !running;
    this.choose(this.query());
    this.note();
  }

  pause(paused) {
    this.paused = paused;
    $("tail-pause").setAttribute("aria-pressed", String(paused));
    if (!paused) this.add(this.kept.splice(0));
    this.note();
  }

  take({ dropped, lines }) {
    this.missed += dropped;
    if (this.paused) {
      this.kept.push(...lines);
      const surplus = this.kept.length - MOST;
      if (surplus > 0) {
        this.kept.splice(0, surplus);
        this.missed += surplus;
      }
    } else this.add(lines);
    this.note();
  }

  add(lines) {
    const list = $("tail-lines");
    // The newest is the first: the eye stays where it is, on a phone, too.
    list.prepend(...lines.slice(-MOST).reverse().map((line) => this.line(line)));
    while (list.childElementCount > MOST) list.lastChild.remove();
  }

  line(line) {
    const body = make("pre");
    const details = make(
      "details",
      {},
      make(
        "summary",
        {},
        make("time", { text: clock(line.time, true), title: line.time }),
        make("b", { className: `op ${line.op}`, text: `${SIGNS[line.op] ?? "?"} ${line.op}` }),
        make("span", { className: "resource", text: line.resource }),
        make("span", { className: "mono key", text: line.namespace ? `${line.namespace}/${line.name}` : line.name }),
        make("span", { className: "muted", text: `@${line.version}${line.evidence === "watched" ? "" : ` ${line.evidence}`}` }),
      ),
      body,
    );
    details.addEventListener("toggle", () => {
      const cut = line.bytes > line.body.length && !line.body.endsWith("}") ? `\n\n… ${bytes(line.bytes)} in all` : "";
      if (details.open && !body.textContent) body.textContent = pretty(line.body) + cut;
    });
    return make("li", {}, details);
  }

  note() {
    const missed = this.missed ? `; ${counted(this.missed, "record")} left out, because they came too fast` : "";
    $("tail-pause").textContent = this.paused ? `Go on${this.kept.length ? ` (${number(this.kept.length)} new)` : ""}` : "Pause";
    const state = !this.running ? "Stopped: no record is read." : this.paused ? "Paused" : "Running";
    const text = `${state}${this.running ? missed : ""}`;
    if ($("tail-note").textContent !== text) $("tail-note").textContent = text;
  }
}
