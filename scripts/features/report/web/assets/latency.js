"use strict";
/* Latencies: means, bars per model, and the table of rows. */

report.views.latency = {
  panels: 24,
  table: {
    columns: ["cell", "status", "reason", "latency_ms", "latency_low_ms", "latency_high_ms", "speedup_vs_eager", "speedup_vs_inductor", "verdict", "doubt", "compile_s", "vmfb_bytes", "run_rss_mb"],
    sort: { column: "cell", falling: false },
    length: report.PAGE,
    picking: false,
  },

  draw(element, data, indices) {
    const { h } = report;
    const timed = indices.filter(report.isTimed);
    const bars = h("section", {});
    const table = h("div", {});
    element.append(timed.length ? this.means(data, indices) : h("p", {}, "None of these rows has a latency."), bars, h("h2", {}, "Rows"), table);
    if (timed.length) this.drawBars(bars, timed);
    report.drawTable(table, indices, this.table);
  },

  means(data, indices) {
    const { h } = report;
    const means = report.means(indices, data.quantiles);
    const title = h("h2", {}, "Geometric means of the speed-up");
    if (!means.length) return h("section", {}, title, h("p", {}, "None of these rows can be compared with eager or inductor."));
    const names = ["of", "verified", ...data.bases.map((base) => `over ${base}`)];
    const body = means.map((one) => h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { class: "number" }, `${one.verified} of ${one.rows}`), one.over.map((over) => h("td", { class: "number" }, over ? this.text(over, one) : "–"))));
    return h(
      "section",
      {},
      title,
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, names.map((name, place) => h("th", { scope: "col", class: place && "number" }, name)))), h("tbody", { class: "means" }, body))),
      h("p", { class: "note" }, "Above 1: faster. In brackets: 99 % intervals of the errors of these measurements. A row that was not measured is in no mean, so means of different rows do not compare."),
    );
  },

  /** As in latency.md: `1.21 (1.05 to 1.39)`, with the number of rows if not all are in it. */
  text(over, mean) {
    if (over.mean === null) return "?";
    if (!report.isKnown(over)) return "unknown";
    return `${over.mean.toFixed(2)} (${over.low.toFixed(2)} to ${over.high.toFixed(2)})` + (mean && over.count !== mean.verified ? `, ${over.count} rows` : "");
  },

  drawBars(element, timed) {
    const { h } = report;
    const groups = d3.groups(timed, (index) => `${report.modelOf(index)}${this.kind(index, timed)}`);
    const shown = groups.slice(0, this.panels);
    const width = report.panelWidth(element, 330);
    const main = report.mainTarget(timed);
    element.append(
      h("h2", {}, "Latency by model"),
      report.legend([...new Set(shown.flatMap(([, rows]) => rows.map((index) => report.of(index, "path"))))]),
      h("p", { class: "note" }, "Milliseconds per call; lines: 99 % intervals. †: its ratios are doubtful, its details say why. Each model has its own scale.", main && ` Without a target: on ${main}.`),
      h("div", { class: "panels" }, shown.map(([name, rows]) => this.panel(name, rows, width, main))),
    );
    if (groups.length > shown.length) {
      const more = () => {
        this.panels *= 4;
        element.replaceChildren();
        this.drawBars(element, timed);
      };
      element.append(h("button", { type: "button", onclick: more }, `Show more of ${groups.length.toLocaleString("en")} models`));
    }
  },

  /** What tells rows of one model apart that cannot be compared: the dtype, if there are several. */
  kind(index, timed) {
    this.dtypes = this.dtypesOf === timed ? this.dtypes : new Set(timed.map((one) => report.of(one, "dtype")));
    this.dtypesOf = timed;
    return this.dtypes.size > 1 ? `, ${report.of(index, "dtype")}` : "";
  },

  panel(name, rows, width, main) {
    const bars = d3.sort(rows, (index) => report.of(index, "on") !== "baseline").map((index) => ({
      index,
      name: report.shortPath(index, main),
      path: report.of(index, "path"),
      ms: report.of(index, "latency_ms"),
      low: report.of(index, "latency_low_ms"),
      high: report.of(index, "latency_high_ms"),
      doubt: report.of(index, "doubt"),
    }));
    // One slow row, such as a software renderer, would leave nothing of the other bars.
    const sorted = bars.map((one) => one.ms).sort(d3.ascending);
    const most = sorted[sorted.length - 1];
    const next = sorted[Math.max(0, sorted.length - 2)];
    const cut = most > 8 * next ? next * 1.6 : null;
    const chart = report.plot({
      width,
      height: 26 + 17 * bars.length,
      marginLeft: 10 + 6.1 * d3.max(bars, (one) => one.name.length),
      marginRight: 74,
      marginTop: 4,
      marginBottom: 20,
      x: { label: null, ticks: 3, domain: cut ? [0, cut] : undefined, zero: true, tickSize: 3, tickFormat: (value) => report.significant(value, 2).replace(/\.0+$/, "") },
      y: { label: null, domain: bars.map((one) => one.name), tickSize: 0, padding: 0.25 },
      marks: [
        Plot.barX(bars, { x: (one) => Math.min(one.ms, cut ?? Infinity), y: "name", fill: (one) => report.color(one.path), fillOpacity: 0.75, title: (one) => `${report.of(one.index, "cell")}: ${report.ms(one.ms)} ms${one.doubt ? `\n${one.doubt}` : ""}` }),
        Plot.ruleY(bars.filter((one) => one.low !== null && one.ms <= (cut ?? Infinity)), { x1: "low", x2: (one) => Math.min(one.high, cut ?? Infinity), y: "name", stroke: "currentColor", strokeWidth: 1.2 }),
        Plot.text(bars, { x: (one) => Math.min(Math.max(one.high ?? one.ms, one.ms), cut ?? Infinity), y: "name", dx: 4, textAnchor: "start", text: (one) => (one.doubt ? "†" : "") + report.ms(one.ms) + (cut && one.ms > cut ? " →" : "") }),
        Plot.ruleX([0]),
      ],
    });
    return report.figure(name, `${name}: ${bars.map((one) => `${one.name} ${report.ms(one.ms)} ms`).join(", ")}`, chart);
  },
};
