// The event stream: one answer without an end, opened again when it breaks, and closed while nobody looks.

import { headers, refusal } from "./api.js";

const HIDDEN_FOR = 5000;
const FIRST_WAIT = 1000;
const LONGEST_WAIT = 15000;

export class Stream {
  constructor(handlers, report) {
    this.handlers = handlers;
    this.report = report; // (state, reason): live, waiting, asleep, locked, refused
    this.query = "";
    this.opened = 0;
    this.wait = FIRST_WAIT;
    this.timer = 0;
    this.abort = null;
    document.addEventListener("visibilitychange", () => this.look());
  }

  choose(query) {
    this.query = query;
    this.open();
  }

  look() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.close("asleep"), HIDDEN_FOR);
    else if (!this.abort) this.open();
  }

  close(state, reason = "") {
    clearTimeout(this.timer);
    this.opened += 1;
    this.abort?.abort();
    this.abort = null;
    this.report(state, reason);
  }

  async open() {
    clearTimeout(this.timer);
    this.abort?.abort();
    const mine = ++this.opened;
    const abort = (this.abort = new AbortController());
    let reason = "the bridge does not answer";
    try {
      const options = { headers: headers(), cache: "no-store", credentials: "omit", redirect: "error", signal: abort.signal };
      const answer = await fetch(`v1/events${this.query}`, options);
      if (!answer.ok) {
        const refused = await refusal(answer);
        if (mine !== this.opened) return;
        if (answer.status === 401 || answer.status === 429) return this.close("locked", refused.message);
        if (answer.status === 403 || answer.status === 421) return this.close("refused", refused.message);
        throw refused;
      }
      this.wait = FIRST_WAIT;
      this.report("live", "");
      await this.read(answer.body.getReader(), () => mine === this.opened);
      reason = "";
    } catch (error) {
      if (error.name !== "AbortError" && error.message && error.status) reason = error.message;
    }
    if (mine !== this.opened) return;
    this.abort = null;
    this.report("waiting", reason);
    this.timer = setTimeout(() => this.open(), this.wait);
    this.wait = Math.min(2 * this.wait, LONGEST_WAIT);
  }

  async read(reader, isMine) {
    const decoder = new TextDecoder();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || !isMine()) return;
      const parts = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const [kind, data] = part.split("\n");
        this.handlers[kind.slice("event: ".length)]?.(JSON.parse(data.slice("data: ".length)));
      }
    }
  }
}
