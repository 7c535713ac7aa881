// The pipeline as a picture: resources, the outbox, sinks. Elements stay while names stay, so that motion does not jump.

import { $, bytes, clip, counted, number, rate, seconds, setText, shape } from "./dom.js";

const MOST = 10; // resources; the others are one node
const NARROW = 720;
const NODE = { height: 52, gap: 10 };

const INFORMER = { live: "ok", listing: "busy", reconnecting: "warn", refused: "bad", unknown: "bad" };
const SINK = { idle: "ok", delivering: "ok", opening: "busy", waiting: "bad", paused: "off", gone: "bad", fenced: "bad" };

// A sink fails from its first failure to its next success, also while an attempt is under way.
export function sinkMood({ status }) {
  const mood = SINK[status.state] ?? "warn";
  if (mood === "off") return mood;
  if (status.circuit !== "closed" || status.last_error) return "bad";
  return status.dead_letters && mood === "ok" ? "warn" : mood;
}
export const failing = (picture) => picture.sinks.filter((each) => sinkMood(each) === "bad").length;
export const informerMood = (each) => (each.ready ? "ok" : INFORMER[each.status.state] ?? "warn");
const WORST = ["bad", "warn", "busy", "ok"];

export function byResource(picture) {
  const found = new Map();
  for (const each of picture.resources) {
    const name = each.status.resource;
    const group = found.get(name) ?? { name, scopes: [], objects: 0, queued: 0, contact: null, mood: "ok", reason: "" };
    group.scopes.push(each);
    group.objects += each.status.objects;
    group.queued += each.status.queued;
    if (each.status.last_contact !== null) group.contact = Math.max(group.contact ?? 0, each.status.last_contact);
    if (WORST.indexOf(informerMood(each)) < WORST.indexOf(group.mood)) group.mood = informerMood(each);
    group.reason ||= each.status.reason;
    group.rate = picture.rates[name] ?? 0;
    found.set(name, group);
  }
  return [...found.values()];
}

function nodesOf(picture) {
  const groups = byResource(picture);
  // Those in trouble, then those with the most objects; by powers of four, so that nodes rarely change their places.
  const size = (each) => Math.floor(Math.log2(1 + each.objects) / 2);
  const first = (a, b) => WORST.indexOf(a.mood) - WORST.indexOf(b.mood) || size(b) - size(a);
  const chosen = new Set([...groups].sort(first).slice(0, MOST));
  const shown = groups.filter((each) => chosen.has(each));
  const left = shown.map((each) => ({
    key: `r ${each.name}`,
    title: each.name,
    mood: each.mood,
    rate: each.rate,
    lines: [
      `${rate(each.rate)}/s · ${counted(each.objects, "object")}`,
      each.mood === "ok" ? (each.queued >= 100 ? `${number(each.queued)} queued` : "") : each.reason || each.scopes[0].status.state,
    ],
    about: `${each.name}: ${each.scopes[0].status.state}, ${rate(each.rate)} records a second, ${counted(each.objects, "object")}${each.reason ? `, ${each.reason}` : ""}`,
  }));
  const others = groups.filter((each) => !chosen.has(each));
  if (others.length) {
    const total = others.reduce((sum, each) => sum + each.rate, 0);
    const objects = others.reduce((sum, each) => sum + each.objects, 0);
    left.push({ key: "r …", title: `${others.length} more`, mood: "ok", rate: total, lines: [`${rate(total)}/s · ${counted(objects, "object")}`, ""], about: `${others.length} more resources` });
  }
  const right = picture.sinks.map((each) => {
    const sink = each.status;
    const mood = sinkMood(each);
    const trouble = mood === "bad" ? sink.last_error : "";
    return {
      key: `s ${sink.name}`,
      title: sink.name,
      aside: sink.type,
      mood,
      rate: each.rate,
      badge: sink.dead_letters,
      lines: [
        `${rate(each.rate)}/s · ${sink.backlog_records ? `backlog ${number(sink.backlog_records)}, lag ${seconds(sink.backlog_seconds)}` : "no backlog"}`,
        trouble || (sink.backfill ? `${sink.backfill}: ${number(sink.backfill_left)} left` : sink.state === "idle" || sink.state === "delivering" ? "" : sink.state),
      ],
      about: `${sink.name}, ${sink.type}: ${sink.state}, ${rate(each.rate)} records a second, backlog ${number(sink.backlog_records)}, lag ${seconds(sink.backlog_seconds)}, ${counted(sink.dead_letters, "dead letter")}${trouble ? `, ${trouble}` : ""}`,
    };
  });
  const total = Object.values(picture.rates).reduce((sum, each) => sum + each, 0);
  const middle = {
    key: "outbox",
    title: "outbox",
    mood: picture.intake_blocked ? "bad" : "ok",
    rate: total,
    lines: [`${rate(total)}/s · ${counted(picture.outbox_records, "record")}, ${bytes(picture.outbox_bytes)}`, picture.intake_blocked ? `blocked: ${picture.intake_blocked}` : ""],
    about: `outbox: ${counted(picture.outbox_records, "record")}${picture.intake_blocked ? `, intake blocked: ${picture.intake_blocked}` : ""}`,
  };
  return { left, middle, right };
}

function place({ left, middle, right }, width) {
  const step = NODE.height + NODE.gap;
  if (width < NARROW) {
    const all = [...left, middle, ...right];
    let y = 4;
    for (const node of all) {
      const gap = node === middle || node === right[0] ? 14 : 0;
      y += gap;
      Object.assign(node, { x: 26, y, width: width - 30 });
      y += step;
    }
    return y;
  }
  const column = Math.min(300, Math.floor(width * 0.27));
  const height = Math.max(left.length, right.length, 1) * step + 2;
  const stack = (nodes, x) => {
    const top = (height - nodes.length * step + NODE.gap) / 2;
    nodes.forEach((node, index) => Object.assign(node, { x, y: top + index * step, width: column }));
  };
  stack(left, 2);
  stack([middle], (width - column) / 2);
  stack(right, width - column - 2);
  return height;
}

// Cuts a text until it is short enough. A text that was cut before is not measured again.
function fit(element, text, measured, room) {
  const wanted = `${room} ${text}`;
  if (element.dataset.wanted === wanted) return;
  element.dataset.wanted = wanted;
  element.textContent = text;
  let most = Math.min(text.length, 200);
  while (most > 1 && measured() > room) {
    most = Math.min(most - 1, Math.floor((most * room) / measured()) + 1);
    element.textContent = clip(text, most);
  }
}

export class Picture {
  constructor(choose) {
    this.choose = choose;
    this.place = $("picture");
    this.edges = shape("g", { class: "edges" });
    this.nodes = shape("g");
    this.svg = shape("svg", { role: "group", "aria-label": "The pipeline: resources, outbox, sinks" }, this.edges, this.nodes);
    this.place.append(this.svg);
    this.drawn = new Map();
    this.last = null;
    new ResizeObserver(() => this.last && this.draw(this.last)).observe(this.place);
  }

  draw(picture) {
    this.last = picture;
    const width = this.place.clientWidth;
    if (!width) return;
    const found = nodesOf(picture);
    const height = place(found, width);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const all = [...found.left, found.middle, ...found.right];
    const keys = new Set(all.map((node) => node.key));
    for (const [key, drawn] of this.drawn) {
      if (keys.has(key)) continue;
      drawn.node.remove();
      drawn.edge?.remove();
      this.drawn.delete(key);
    }
    for (const node of all) this.update(node, found.middle, width);
  }

  update(node, middle, width) {
    let drawn = this.drawn.get(node.key);
    if (!drawn) {
      drawn = this.begin(node);
      this.drawn.set(node.key, drawn);
    }
    drawn.node.setAttribute("transform", `translate(${node.x} ${node.y})`);
    drawn.node.setAttribute("class", `node ${node.mood} ${node.key === "outbox" ? "hub" : ""}`);
    drawn.node.setAttribute("aria-label", node.about);
    drawn.box.setAttribute("width", node.width);
    drawn.badge.setAttribute("transform", `translate(${node.width - 12} 17)`);
    const room = node.width - 26 - 8;
    setText(drawn.hint, node.about);
    setText(drawn.badge, node.badge ? `✉ ${number(node.badge)}` : "");
    setText(drawn.aside, node.aside ?? "");
    const beside = node.badge ? 60 : 0;
    fit(drawn.name, node.title, () => drawn.title.getComputedTextLength(), room - beside);
    fit(drawn.first, node.lines[0], () => drawn.first.getComputedTextLength(), room);
    fit(drawn.second, node.lines[1] || "", () => drawn.second.getComputedTextLength(), room);
    const lift = node.lines[1] ? 0 : 7;
    drawn.title.setAttribute("y", 17 + lift);
    drawn.dot.setAttribute("cy", 13 + lift);
    drawn.first.setAttribute("y", 32 + lift);
    if (drawn.edge) this.join(drawn, node, middle, width);
  }

  begin(node) {
    const dot = shape("circle", { cx: 14, r: 4.5, class: "dot" });
    const [title, first, second, badge] = ["title", "line", "line trouble", "badge"].map((name) => shape("text", { class: name, x: name === "badge" ? 0 : 26 }));
    const name = shape("tspan");
    const aside = shape("tspan", { class: "aside", dx: 7 });
    title.append(name, aside);
    second.setAttribute("y", 45);
    const hint = shape("title");
    const box = shape("rect", { height: NODE.height, rx: 7, class: "box" });
    const isSink = node.key.startsWith("s ");
    const group = shape("g", isSink ? { role: "button", tabindex: "0" } : { role: "img" }, hint, box, dot, title, first, second, badge);
    if (isSink) {
      const chosen = () => this.choose(node.title);
      group.addEventListener("click", chosen);
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          chosen();
        }
      });
    }
    this.nodes.append(group);
    const drawn = { node: group, hint, box, dot, title, name, aside, first, second, badge };
    if (node.key !== "outbox") {
      drawn.edge = shape("path");
      this.edges.append(drawn.edge);
    }
    return drawn;
  }

  join(drawn, node, middle, width) {
    const y = node.y + NODE.height / 2;
    const hub = middle.y + NODE.height / 2;
    const isLeft = node.key.startsWith("r ");
    let path;
    if (width < NARROW) path = isLeft ? `M26 ${y}H14V${hub}H26` : `M26 ${hub}H14V${y}H26`;
    else {
      const [x1, y1, x2, y2] = isLeft ? [node.x + node.width, y, middle.x, hub] : [middle.x + middle.width, hub, node.x, y];
      const bend = (x2 - x1) / 2;
      path = `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
    }
    if (drawn.path !== path) drawn.edge.setAttribute("d", (drawn.path = path));
    const pace = node.rate <= 0 ? "still" : node.rate < 2 ? "slow" : node.rate < 50 ? "steady" : "fast";
    const look = `${pace} ${node.mood}`;
    if (drawn.look !== look) drawn.edge.setAttribute("class", (drawn.look = look));
  }
}
