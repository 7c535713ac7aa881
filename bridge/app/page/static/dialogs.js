// Dialogs: the token, a replay, a question, a body.

import { get, post, Refused, text as fetchText, token } from "./api.js";
import { $, bytes, counted, make, pretty, toast } from "./dom.js";

for (const dialog of document.querySelectorAll("dialog")) {
  for (const button of dialog.querySelectorAll(".close")) button.addEventListener("click", () => dialog.close());
}

// ── The token ────────────────────────────────────────────────────────────────

export class TokenDialog {
  constructor(changed) {
    this.changed = changed;
    this.waiting = [];
    $("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.use($("token-input").value.trim());
    });
    $("token-forget").addEventListener("click", () => {
      token.forget();
      $("token-dialog").close();
      this.changed();
    });
    $("token-dialog").addEventListener("close", () => {
      $("token-input").value = "";
      for (const resolve of this.waiting.splice(0)) resolve(Boolean(token.get()));
    });
  }

  // Resolves with whether there is a token then.
  show() {
    $("token-error").textContent = "";
    $("token-forget").hidden = !token.get();
    if (!$("token-dialog").open) $("token-dialog").showModal();
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  async use(given) {
    try {
      await get("v1/cursors", given);
    } catch (error) {
      $("token-error").textContent = error.status === 401 ? "The bridge refuses this token." : error.message;
      $("token-input").select();
      return;
    }
    token.set(given);
    $("token-dialog").close();
    this.changed();
  }
}

function filled(form, fields) {
  return Object.fromEntries(fields.map((field) => [field, $(`${form}-${field}`).value.trim()]).filter(([, value]) => value));
}

// ── Changes ──────────────────────────────────────────────────────────────────

export class Changes {
  constructor(tokens) {
    this.tokens = tokens;
    this.offered = [];
    $("replay-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendReplay();
    });
    $("snapshot-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendSnapshot();
    });
    for (const [field, value] of [["replay-number", "number"], ["replay-time", "time"]]) {
      $(field).addEventListener("focus", () => {
        document.querySelector(`input[name=from][value=${value}]`).checked = true;
      });
    }
    $("sure-form").addEventListener("submit", (event) => {
      event.preventDefault();
      $("sure-dialog").close("yes");
    });
  }

  can(path) {
    return this.offered.includes(path);
  }

  // Whether this tab has the token, which is asked for before every other question.
  async unlocked() {
    return Boolean(token.get()) || this.tokens.show();
  }

  // Sends a change. Returns the answer; undefined if it was refused.
  async send(path, value, done) {
    if (!(await this.unlocked())) return undefined;
    try {
      const answer = await post(path, value);
      toast(done(answer), "ok");
      return answer;
    } catch (error) {
      if (error instanceof Refused && error.status === 401) token.forget();
      toast(error.message, "bad");
      if (error.status === 401) this.tokens.show();
      return undefined;
    }
  }

  async sure(title, explanation, yes) {
    if (!(await this.unlocked())) return false;
    $("sure-title").textContent = title;
    $("sure-text").textContent = explanation;
    $("sure-yes").textContent = yes;
    const dialog = $("sure-dialog");
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
  }

  async replay(sink) {
    if (!(await this.unlocked())) return;
    this.sink = sink;
    $("replay-sink").textContent = sink;
    $("replay-error").textContent = "";
    $("replay-range").textContent = "";
    $("replay-dialog").showModal();
    try {
      const { first, last } = await get("v1/cursors");
      $("replay-range").textContent =
        last < first
          ? "The log keeps no record at this moment: state.retain says for how long records stay."
          : `The log has the sequence numbers ${first} to ${last}. Records that the sink has not settled follow behind them.`;
    } catch (error) {
      $("replay-error").textContent = error.message;
    }
  }

  async snapshot(sink) {
    if (!(await this.unlocked())) return;
    this.sink = sink;
    $("snapshot-sink").textContent = sink;
    $("snapshot-error").textContent = "";
    $("snapshot-dialog").showModal();
  }

  async sendSnapshot() {
    const asked = { sink: this.sink, ...filled("snapshot", ["resource", "namespace", "where"]) };
    try {
      const begun = await post("v1/snapshots", asked);
      $("snapshot-dialog").close();
      toast(`${counted(begun.objects, "object")} will go to ${this.sink} once more`, "ok");
    } catch (error) {
      $("snapshot-error").textContent = error.message;
    }
  }

  async sendReplay() {
    const from = document.querySelector("input[name=from]:checked").value;
    let start = from;
    if (from === "number") start = Number($("replay-number").value);
    if (from === "time") {
      const time = new Date($("replay-time").value);
      start = Number.isNaN(time.valueOf()) ? 0 : time.toISOString().replace(/\.(\d{3})Z$/, ".$1000Z");
    }
    if (!start) {
      $("replay-error").textContent = `Enter a ${from === "time" ? "time" : "sequence number"}.`;
      return;
    }
    const asked = { sink: this.sink, start, ...filled("replay", ["resource", "namespace"]) };
    try {
      const done = await post("v1/replay", asked);
      $("replay-dialog").close();
      toast(`${counted(done.records, "record")} (${done.first} to ${done.last}) will go to ${this.sink} again`, "ok");
    } catch (error) {
      $("replay-error").textContent = error.message;
    }
  }
}

// ── A body ───────────────────────────────────────────────────────────────────

export function showBody(title, facts, text, note = "") {
  $("body-title").textContent = title;
  $("body-facts").replaceChildren(
    ...Object.entries(facts).filter(([, value]) => value).flatMap(([name, value]) => [make("dt", { text: name }), make("dd", { text: value })]),
  );
  $("body-text").textContent = pretty(text) + (note ? `\n\n${note}` : "");
  if (!$("body-dialog").open) $("body-dialog").showModal();
  $("body-text").scrollTop = 0;
}

export async function showLetter(letter) {
  const facts = {
    sink: letter.sink,
    reason: letter.reason,
    answer: letter.answer,
    change: `${letter.op} ${letter.id}, sequence number ${letter.sequence}`,
    seen: letter.time,
    state: letter.parked ? "parked behind an earlier dead letter of its object" : letter.retrying ? "marked for retry" : "",
  };
  try {
    const { text, cut } = await fetchText(`v1/dead-letters/${letter.number}/object`);
    showBody(`${letter.resource} ${letter.key}`, facts, text, cut ? `… only the first ${bytes(text.length)} are shown` : "");
  } catch (error) {
    showBody(`${letter.resource} ${letter.key}`, facts, "", error.message);
  }
}
