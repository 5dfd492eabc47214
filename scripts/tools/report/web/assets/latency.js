"use strict";
/* Latencies: means and charts per model of the selected rows, and their table. */

report.views.latency = {
  table: {
    columns: ["cell", "status", "reason", "latency_ms", "latency_low_ms", "latency_high_ms", "speedup_vs_eager", "speedup_vs_inductor", "verdict", "doubt", "compile_s", "vmfb_bytes", "run_rss_mb"],
    sort: { column: "cell", falling: false },
    length: report.PAGE,
    picking: false,
  },

  draw(element, data, indices) {
    const { h } = report;
    const table = h("div", {});
    const charts = h("div", {});
    const byModel = data.byModel.charts ? report.filtered(data.byModel, new Set(indices)) : null;
    element.append(byModel ? this.means(data, indices) : h("p", {}, "None of these rows has a latency."), charts, h("h2", {}, "Rows"), table);
    if (byModel) report.drawSection(charts, byModel);
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
};
