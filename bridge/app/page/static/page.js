// Joins the parts of the page: one stream of events, and everything that shows them.

import { token } from "./api.js";
import { Chart } from "./chart.js";
import { Changes, TokenDialog } from "./dialogs.js";
import { $, bytes, counted, seconds, setText, toast } from "./dom.js";
import { Letters } from "./letters.js";
import { failing, Picture } from "./picture.js";
import { Stream } from "./stream.js";
import { ResourceTable, SinkTable } from "./tables.js";
import { Tail } from "./tail.js";

const tokens = new TokenDialog(() => stream.open());
const changes = new Changes(tokens);
const chart = new Chart();
const sinks = new SinkTable(changes);
const resources = new ResourceTable();
const letters = new Letters(changes);
const picture = new Picture((name) => sinks.focus(name));
const tail = new Tail((query) => stream.choose(query));
let newest = null;

const LINK = { live: "live", waiting: "reconnecting", asleep: "asleep", locked: "locked", refused: "refused" };

const stream = new Stream(
  {
    hello(hello) {
      $("cluster").textContent = hello.cluster;
      $("version").textContent = `kubedelta ${hello.version}`;
      changes.offered = hello.may_change ? hello.commands : [];
      lock(hello.may_change ? "open" : "none");
      if (newest) show(newest);
    },
    history: (series) => chart.history(series),
    sample: (sample) => chart.sample(sample),
    picture: show,
    tail: (lines) => tail.take(lines),
  },
  (state, reason) => {
    document.body.dataset.link = state;
    $("link").textContent = LINK[state] + (state === "waiting" && reason ? `: ${reason}` : "");
    if (state !== "live") health("unknown", "no news");
    if (state === "refused") alert(reason);
    if (state === "locked") {
      lock("closed");
      if (token.get()) toast("The bridge refuses the token of this tab: enter the present one.", "bad");
      token.forget();
      tokens.show();
    }
  },
);

const LOCK = { open: ["Unlocked", "This tab has the token"], closed: ["Enter token", ""], none: ["Read-only", "page.token_file is not configured"] };

function lock(state) {
  const button = $("lock");
  [button.textContent, button.title] = LOCK[state];
  button.dataset.open = String(state === "open");
  button.disabled = state === "none";
}

// In the header and, unless all is well, in the title: a tab among others says it, too.
function health(mood, text) {
  $("ready").dataset.mood = mood;
  setText($("ready"), text);
  const title = [mood === "ok" ? "" : text, "kubedelta", $("cluster").textContent].filter(Boolean).join(" · ");
  if (document.title !== title) document.title = title;
}

function healthOf(found) {
  const trouble = [found.ready ? "" : "not ready", failing(found) ? `${counted(failing(found), "sink")} failing` : ""];
  return trouble.filter(Boolean).join(", ");
}

function alert(text) {
  $("alert").hidden = !text;
  setText($("alert"), text);
}

function show(found) {
  newest = found;
  const trouble = healthOf(found);
  health(trouble ? "bad" : "ok", trouble || "ready");
  const blocked = found.intake_blocked ? `The intake is blocked: ${found.intake_blocked}` : "";
  alert(blocked || (found.refused ? `The configuration file is refused, the former one is in effect: ${found.refused}` : ""));
  picture.draw(found);
  resources.show(found);
  sinks.show(found);
  letters.show(found);
  tail.show(found);
  const free = found.disk_free_bytes === null ? "" : ` · ${bytes(found.disk_free_bytes)} free on the disk`;
  $("disk").textContent = `outbox ${bytes(found.outbox_bytes)}, oldest record ${seconds(found.outbox_oldest_seconds)}${free}`;
}

$("lock").addEventListener("click", () => tokens.show());
$("resources").addEventListener("toggle", () => newest && resources.show(newest));
stream.open();
