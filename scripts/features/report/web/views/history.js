"use strict";
/* How results changed from run to run: changes with the run in which they happened, slow drifts, and series. */

report.views.history = {
  hasRows: true,
  value: "latency_ms",
  NAMES: { latency_ms: "latency", vmfb_bytes: "size of the module", compile_s: "time of the compilation" },
  MOST: 60,

  draw(element, data, indices) {
    const { h } = report;
    const chosen = new Set(indices);
    const choose = (event) => {
      this.value = event.target.value;
      element.replaceChildren();
      this.draw(element, data, indices);
    };
    const series = data.values[this.value].filter((one) => chosen.has(one.row));
    const options = Object.keys(data.values).map((name) => h("option", { value: name, selected: name === this.value }, this.NAMES[name]));
    const parts = [this.findings(data, series), this.endings(data, chosen), this.charts(element, data, series), this.runs(data)];
    element.append(h("p", { class: "choice" }, h("label", {}, "Value ", h("select", { onchange: choose }, options))), ...parts.filter(Boolean));
  },

  ratio: ([ratio, low, high]) => (ratio === null ? "from 0" : low === high ? `× ${report.significant(ratio, 4)}` : `× ${ratio.toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)})`),

  run: (data, place) => `${data.runs[place].when} (${data.runs[place].id})`,

  /** Changes of the level, then drifts, as a table. */
  findings(data, series) {
    const { h } = report;
    const changed = series.flatMap((one) => one.changes.map((change) => [one, "change", this.run(data, change.run), this.ratio(change.ratio), change.differs.join(", ")]));
    const drifting = series.filter((one) => one.drift).map((one) => [one, "slow drift", `over ${one.points.length} runs`, this.ratio(one.drift.ratio), `× ${one.drift.step.toFixed(4)} per run`]);
    const rows = [...changed, ...drifting].map(([one, ...cells]) => h("tr", {}, h("th", { scope: "row" }, report.opener(one.row, report.of(one.row, "cell"))), cells.map((text, place) => h("td", { class: place === cells.length - 1 && "long" }, text))));
    const title = h("h2", {}, `Changes of the ${this.NAMES[this.value]}`);
    if (!rows.length) return h("section", {}, title, h("p", {}, `No change was found in ${series.length} series of ${data.runs.length} runs.`));
    return h("section", {}, title, this.table(["", "what", "run", "ratio (99 % interval)", "what differs from the run before"], rows));
  },

  /** Cells that end in another way than before. */
  endings(data, chosen) {
    const { h } = report;
    const rows = data.endings
      .filter((one) => chosen.has(one.row))
      .map((one) => h("tr", {}, h("th", { scope: "row" }, report.opener(one.row, report.of(one.row, "cell"))), [this.run(data, one.run), `${one.before} → ${one.after}`, one.differs.join(", ")].map((text, place) => h("td", { class: place === 2 && "long" }, text))));
    return rows.length ? h("section", {}, h("h2", {}, "Cells that end in another way"), this.table(["", "run", "ends", "what differs from the run before"], rows)) : null;
  },

  runs(data) {
    const { h } = report;
    const rows = data.runs.map((one) => h("tr", {}, h("th", { scope: "row" }, one.page ? h("a", { href: one.page }, one.id) : one.id), [one.when, one.commit, one.machine, one.versions].map((text) => h("td", {}, text)), h("td", { class: "number" }, `${one.ok} of ${one.rows}`)));
    return h("section", {}, h("h2", {}, "Runs"), this.table(["run", "when (UTC)", "commit", "machine", "versions", "ok"], rows));
  },

  table: (names, rows) => report.h("div", { class: "scroll" }, report.h("table", { class: "rows" }, report.h("thead", {}, report.h("tr", {}, names.map((name) => report.h("th", { scope: "col" }, name)))), report.h("tbody", {}, rows))),

  /** A chart per series, those with findings first. */
  charts(element, data, series) {
    const { h } = report;
    const width = report.panelWidth(element, 380);
    const several = series.filter((one) => one.points.length > 1);
    const shown = [...several].sort((a, b) => this.weight(b) - this.weight(a)).slice(0, this.MOST);
    const rest = several.length - shown.length;
    return h(
      "section",
      {},
      h("h2", {}, "Series"),
      h("p", { class: "note" }, "One point per measurement, by run. Vertical lines: 99 % intervals. Dashed: a change. A latency is known by how many times as fast as eager it is, which was timed in the same turns; blue ground: faster, orange: slower, grey: within 5 %."),
      h("div", { class: "panels wide" }, shown.map((one) => this.chart(data, one, width))),
      rest > 0 && h("p", { class: "note" }, `${rest} more; select fewer rows to see them.`),
    );
  },

  /** What is faster than the anchor, the same, or slower, as colours of the ground. */
  bands(data, points) {
    const same = 1.05;
    const ends = [d3.min(points, (one) => one.low ?? one.value), d3.max(points, (one) => one.high ?? one.value)];
    const bands = [[same, ends[1], "faster"], [1 / same, same, "same"], [ends[0], 1 / same, "slower"]];
    const cut = bands.map(([from, to, kind]) => ({ kind, from: Math.max(from, ends[0]), to: Math.min(to, ends[1]) })).filter((one) => one.from < one.to);
    return Plot.rect(cut, { x1: -0.5, x2: data.runs.length - 0.5, y1: "from", y2: "to", fill: (one) => this.GROUND[one.kind], fillOpacity: 0.16 });
  },

  GROUND: { faster: "var(--faster)", same: "var(--eager)", slower: "var(--slower)" },

  weight: (one) => 2 * one.changes.length + (one.drift ? 1 : 0),

  chart(data, one, width) {
    const [least, most] = d3.extent(one.points, ([, value]) => value);
    // An interval that is much wider than the series would leave nothing of it to see.
    const cut = (end) => (end === null ? null : Math.min(2 * most, Math.max(least / 2, end)));
    const points = one.points.map(([run, value, low, high, ms]) => ({ run, value, low: cut(low), high: cut(high), ms }));
    const { anchor, unit } = one;
    const name = [report.of(one.row, "cell"), anchor && `times as fast as ${anchor}`, one.follows && `after ${one.follows}`].filter(Boolean).join(", ");
    const text = (value) => (unit === "bytes" ? report.bytes(value) : `${report.significant(value, 3)} ${unit}`);
    const whole = (point) => text(point.value) + (anchor ? ` (${report.significant(point.ms, 3)} ms)` : "");
    const chart = report.plot({
      width,
      height: 170,
      marginLeft: 60,
      marginBottom: 34,
      x: { label: "run", domain: [-0.5, data.runs.length - 0.5], ticks: Math.min(Math.floor(width / 65), data.runs.length), tickFormat: (place) => (Number.isInteger(place) ? (data.runs[place]?.when.slice(5, 10) ?? "") : "") },
      y: { label: anchor ? "times as fast" : unit, grid: true, nice: true, ticks: 4 },
      marks: [
        anchor ? this.bands(data, points) : null,
        Plot.ruleX(one.changes, { x: (change) => change.run - 0.5, stroke: "#d55e00", strokeDasharray: "4 3" }),
        Plot.lineY(points, { x: "run", y: "value", stroke: "var(--accent)", strokeOpacity: 0.5 }),
        Plot.ruleX(points.filter((point) => point.low !== null), { x: "run", y1: "low", y2: "high", stroke: "var(--accent)" }),
        Plot.dot(points, { x: "run", y: "value", r: 3, fill: "var(--accent)", title: (point) => `${this.run(data, point.run)}: ${whole(point)}\n${data.runs[point.run].versions}\n${data.runs[point.run].commit}` }),
      ],
    });
    const about = `${name}: ${points.map(whole).join(", ")}`;
    return report.figure(name, about, chart);
  },
};
