// The tables of resources and sinks. Rows stay while names stay, so that focus does.

import { $, make, number, rate, seconds, setText } from "./dom.js";
import { informerMood, sinkMood } from "./picture.js";

export class Rows {
  constructor(body, begin) {
    this.body = body;
    this.begin = begin;
    this.rows = new Map();
  }

  // items: key → value, in order
  show(items, update) {
    for (const [key, row] of this.rows) {
      if (!items.has(key)) {
        row.element.remove();
        this.rows.delete(key);
      }
    }
    let before = null;
    for (const [key, item] of items) {
      let row = this.rows.get(key);
      if (!row) this.rows.set(key, (row = this.begin(key, item)));
      update(row, item);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== row.element) this.body.insertBefore(row.element, next);
      before = row.element;
    }
  }
}

function state(cell, mood, text) {
  const [dot, word] = cell.children;
  if (dot.dataset.mood !== mood) dot.dataset.mood = mood;
  setText(word, text);
}

const stateCell = (label) => make("td", { data: { label } }, make("i", { className: "dot", "aria-hidden": "true" }), make("span"));
const numberCell = (label) => make("td", { className: "n", data: { label } });

export class ResourceTable {
  constructor() {
    this.rows = new Rows($("resource-rows"), () => {
      const cells = { name: make("th", { scope: "row" }), scope: make("td"), state: stateCell("State"), reason: make("small", { className: "reason" }) };
      cells.state.append(cells.reason);
      for (const name of ["rate", "objects", "queued", "contact"]) cells[name] = numberCell(name);
      const element = make("tr", {}, cells.name, cells.scope, cells.state, cells.rate, cells.objects, cells.queued, cells.contact);
      return { element, ...cells };
    });
  }

  show(picture) {
    if (!$("resources").open) return;
    const items = new Map(picture.resources.map((each) => [`${each.status.resource} ${each.status.scope}`, each]));
    this.rows.show(items, (row, each) => {
      const { status } = each;
      setText(row.name, status.resource);
      setText(row.scope, status.scope);
      state(row.state, informerMood(each), status.state);
      setText(row.reason, status.reason);
      setText(row.rate, rate(picture.rates[status.resource] ?? 0));
      setText(row.objects, number(status.objects));
      setText(row.queued, number(status.queued));
      setText(row.contact, seconds(status.last_contact));
    });
  }
}

export class SinkTable {
  constructor(changes) {
    this.changes = changes;
    this.rows = new Rows($("sink-rows"), (name) => this.begin(name));
  }

  begin(name) {
    const button = (text, about, action) => make("button", { type: "button", className: "change small", text, "aria-label": `${about} ${name}`, on: { click: action } });
    const cells = {
      name: make("th", { scope: "row" }, make("b", { text: name }), " ", make("small")),
      state: stateCell("State"),
      reason: make("small", { className: "reason" }),
      rate: numberCell("Records/s"),
      backlog: numberCell("Backlog"),
      lag: numberCell("Lag"),
      letters: numberCell("Dead letters"),
      actions: make("td", { className: "actions" }),
      pause: button("Pause", "Pause", () => this.pause(name)),
      retry: button("Try now", "Try now to deliver to", () => this.steer("retry", name)),
      replay: button("Replay…", "Replay to", () => this.changes.replay(name)),
      snapshot: button("Snapshot…", "Send a snapshot to", () => this.changes.snapshot(name)),
      cancel: button("Cancel snapshot", "Cancel the snapshot of", () => this.cancel(name)),
    };
    cells.state.append(cells.reason);
    cells.actions.append(cells.pause, cells.retry, cells.replay, cells.snapshot, cells.cancel);
    const element = make("tr", { tabindex: "-1" }, cells.name, cells.state, cells.rate, cells.backlog, cells.lag, cells.letters, cells.actions);
    return { element, paused: false, ...cells };
  }

  show(picture) {
    this.rows.show(new Map(picture.sinks.map((each) => [each.status.name, each])), (row, each) => {
      const { status } = each;
      setText(row.name.lastChild, status.type);
      state(row.state, sinkMood(each), status.circuit === "closed" ? status.state : `${status.state}, circuit ${status.circuit}`);
      setText(row.reason, [status.retry_in === null ? "" : `next attempt in ${seconds(status.retry_in)}`, status.last_error].filter(Boolean).join(": "));
      setText(row.rate, rate(each.rate));
      setText(row.backlog, number(status.backlog_records) + (status.backfill ? ` + ${status.backfill} ${number(status.backfill_left)}` : ""));
      setText(row.lag, status.backlog_records ? seconds(status.backlog_seconds) : "–");
      setText(row.letters, number(status.dead_letters) + (status.parked ? ` (${number(status.parked)} parked)` : ""));
      row.paused = ["paused", "gone", "fenced"].includes(status.state);
      setText(row.pause, row.paused ? "Resume" : "Pause");
      row.pause.setAttribute("aria-label", `${row.paused ? "Resume" : "Pause"} ${status.name}`);
      row.pause.hidden = !this.changes.can("/v1/sinks/pause");
      row.retry.hidden = row.pause.hidden || status.state !== "waiting";
      row.replay.hidden = !this.changes.can("/v1/replay");
      row.snapshot.hidden = !this.changes.can("/v1/snapshots") || status.backfill !== "";
      row.cancel.hidden = !this.changes.can("/v1/snapshots/cancel") || status.backfill !== "snapshot";
    });
  }

  focus(name) {
    const row = this.rows.rows.get(name)?.element;
    row?.scrollIntoView({ block: "center" });
    row?.focus();
  }

  steer(action, sink) {
    const done = { pause: "paused", resume: "resumed", retry: "tried now" }[action];
    return this.changes.send(`v1/sinks/${action}`, { sink }, (answer) => (answer.changed ? `${sink} is ${done}` : `${sink}: nothing to change`));
  }

  async pause(sink) {
    if (this.rows.rows.get(sink)?.paused) return this.steer("resume", sink);
    const why = "Deliveries stop until someone resumes the sink, also across restarts. Its backlog grows up to max_backlog.";
    return (await this.changes.sure(`Pause ${sink}?`, why, "Pause")) && this.steer("pause", sink);
  }

  cancel(sink) {
    return this.changes.send("v1/snapshots/cancel", { sink }, (answer) => `the snapshot of ${sink} is ${answer.state}; ${number(answer.left)} objects are left out`);
  }
}
