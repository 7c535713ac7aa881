// Backlogs of the last hour.

import { $, clock, number } from "./dom.js";

const MOST = 360;
const HEIGHT = 190;
export const COLOURS = 8;

// The newest values, where the pointer is not on the chart.
function showNewest(plot) {
  if (plot.cursor.idx === null || plot.cursor.idx === undefined) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
}

export class Chart {
  constructor() {
    this.times = [];
    this.series = new Map();
    this.plot = null;
    this.names = "";
    new ResizeObserver(() => this.resize()).observe($("chart"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  history({ times, records }) {
    this.times = times;
    this.series = new Map(Object.entries(records));
    this.draw();
  }

  sample({ time, records }) {
    const drop = this.times.length >= MOST ? 1 : 0;
    for (const name of Object.keys(records)) {
      if (!this.series.has(name)) this.series.set(name, this.times.map(() => null));
    }
    this.times = [...this.times.slice(drop), Math.floor(time)];
    for (const [name, values] of this.series) this.series.set(name, [...values.slice(drop), records[name] ?? null]);
    for (const [name, values] of this.series) if (values.every((each) => each === null)) this.series.delete(name);
    this.draw();
  }

  data() {
    return [this.times, ...this.series.values()];
  }

  draw() {
    const enough = this.times.length > 1;
    $("chart-note").hidden = enough;
    $("chart").hidden = !enough;
    if (!enough) return;
    const names = JSON.stringify([...this.series.keys()]);
    if (this.plot && names === this.names) this.plot.setData(this.data());
    else {
      this.names = names;
      this.rebuild();
    }
    const newest = [...this.series].map(([name, values]) => `${name} ${number(values.at(-1) ?? 0)}`);
    $("chart").setAttribute("aria-label", `Backlog of each sink over the last hour; now: ${newest.join(", ")} records`);
  }

  resize() {
    const width = $("chart").clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  rebuild() {
    if (this.times.length < 2) return;
    this.plot?.destroy();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const lines = [...this.series.keys()].map((name, index) => ({
      label: name,
      stroke: colour(`--c${index % COLOURS}`),
      width: 1.75,
      points: { show: false },
      value: (_, value) => (value === null ? "–" : number(value)),
    }));
    const options = {
      width: $("chart").clientWidth,
      height: HEIGHT,
      scales: { y: { range: (_, low, high) => [0, Math.max(10, high * 1.1)] } },
      axes: [{ ...axis, space: 80, values: (_, times, __, ___, step) => times.map((each) => clock(1000 * each).slice(0, step < 60 ? 8 : 5)) }, { ...axis, size: 58, values: (_, values) => values.map((each) => (Number.isInteger(each) ? number(each) : "")) }],
      series: [{ label: "Time", value: (_, time) => (time === null ? "–" : clock(1000 * time)) }, ...lines],
      cursor: { y: false },
      hooks: { setCursor: [showNewest], setData: [showNewest], ready: [showNewest] },
    };
    this.plot = new uPlot(options, this.data(), $("chart"));
  }
}
