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
    const rows = data.runs.map((one) => h("tr", {}, h("th", { scope: "row" }, one.id), [one.when, one.commit, one.machine, one.versions].map((text) => h("td", {}, text)), h("td", { class: "number" }, `${one.ok} of ${one.rows}`)));
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
      h("p", { class: "note" }, "One point per measurement, by run. Vertical lines: 99 % intervals. Dashed: a change. A latency is known by how many times as fast as eager it is, which was timed in the same turns."),
      h("div", { class: "panels wide" }, shown.map((one) => this.chart(data, one, width))),
      rest > 0 && h("p", { class: "note" }, `${rest} more; select fewer rows to see them.`),
    );
  },

  weight: (one) => 2 * one.changes.length + (one.drift ? 1 : 0),

  chart(data, one, width) {
    const points = one.points.map(([run, value, low, high, ms]) => ({ run, value, low, high, ms }));
    const { anchor, unit } = one;
    const name = [report.of(one.row, "cell"), anchor && `times as fast as ${anchor}`, one.follows && `after ${one.follows}`].filter(Boolean).join(", ");
    const text = (value) => (unit === "bytes" ? report.bytes(value) : `${report.significant(value, 3)} ${unit}`);
    const whole = (point) => text(point.value) + (anchor ? ` (${report.significant(point.ms, 3)} ms)` : "");
    const chart = report.plot({
      width,
      height: 170,
      marginLeft: 60,
      marginBottom: 34,
      x: { label: "run", domain: [-0.5, data.runs.length - 0.5], ticks: Math.min(8, data.runs.length), tickFormat: (place) => (Number.isInteger(place) ? (data.runs[place]?.when.slice(5, 10) ?? "") : "") },
      y: { label: anchor ? "times as fast" : unit, grid: true, nice: true, ticks: 4 },
      marks: [
        Plot.ruleX(one.changes, { x: (change) => change.run - 0.5, stroke: "#d55e00", strokeDasharray: "4 3" }),
        Plot.lineY(points, { x: "run", y: "value", stroke: report.COLORS[0], strokeOpacity: 0.5 }),
        Plot.ruleX(points.filter((point) => point.low !== null), { x: "run", y1: "low", y2: "high", stroke: report.COLORS[0] }),
        Plot.dot(points, { x: "run", y: "value", r: 3, fill: report.COLORS[0], title: (point) => `${this.run(data, point.run)}: ${whole(point)}` }),
      ],
    });
    const about = `${name}: ${points.map(whole).join(", ")}`;
    return report.figure(name, about, chart);
  },
};
