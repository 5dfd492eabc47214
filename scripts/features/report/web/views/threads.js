"use strict";
/* Threads: per model, latency and parallel efficiency by the number of threads, and a table of both. */

report.views.threads = {
  hasRows: true,

  draw(element, data, indices) {
    const { h } = report;
    const chosen = new Set(indices);
    const kept = data.lines.map((one) => ({ ...one, points: one.points.filter((point) => chosen.has(point.index)) }));
    const lines = report.withoutOneTarget(kept.filter((one) => one.points.length > 0));
    if (!lines.length) {
      element.append(h("p", {}, "None of the selected rows was measured on several numbers of threads."));
      return;
    }
    const paths = [...new Set(lines.map((one) => one.path))];
    const width = report.panelWidth(element, 380);
    element.append(
      report.legend(paths),
      h("p", { class: "note" }, "Efficiency: latency of the fewest threads × their number, divided by latency × number of threads. It is 100 % if twice the threads take half the time. Vertical lines: 99 % intervals. Numbers of threads were timed one after the other: what changed between them is not in the intervals. Dashed: 100 %."),
      ...d3.groups(lines, (one) => one.model).map(([model, of]) => this.panel(model, of, paths, width)),
    );
  },

  /** The charts and the table of one model. */
  panel(model, lines, paths, width) {
    const { h } = report;
    const latency = { value: "latency_ms", low: "latency_low_ms", high: "latency_high_ms", label: "ms", text: (value) => `${report.ms(value)} ms` };
    const efficiency = { value: "efficiency", low: "efficiency_low", high: "efficiency_high", label: "efficiency (%)", scale: 100, text: report.percent, limit: 100 };
    const charts = [["latency", latency], ["parallel efficiency", efficiency]].map(([what, of]) => this.chart(model, what, lines, paths, of, width)).filter(Boolean);
    return h("section", {}, h("h2", {}, model), charts.length > 0 && h("div", { class: "panels wide" }, charts), this.table(lines));
  },

  chart(model, what, lines, paths, { value, low, high, label, scale = 1, text, limit }, width) {
    const numbers = this.numbers(lines);
    const shown = lines.filter((one) => one.points.some((point) => point[value]));
    if (!shown.length) return null;
    const chart = report.plot({
      width,
      height: 230,
      marginLeft: 55,
      x: { type: "point", domain: numbers, label: "threads" },
      y: { label, zero: true, nice: true, grid: true, ticks: 5, transform: (one) => scale * one },
      symbol: { domain: paths, range: paths.map(report.symbol) },
      marks: [
        limit && Plot.ruleY([limit / scale], { stroke: "currentColor", strokeDasharray: "5 4" }),
        shown.map(({ path, points }, place) => {
          const of = points.filter((point) => point[value]).map((point) => ({ ...point, path }));
          const dx = 7 * (place - (shown.length - 1) / 2); // beside each other, so that intervals do not cover each other
          return [
            Plot.lineY(of, { x: "threads", y: value, dx, stroke: report.color(path), strokeOpacity: 0.5 }),
            Plot.ruleX(of.filter((point) => point[low]), { x: "threads", y1: low, y2: high, dx, stroke: report.color(path) }),
            Plot.dot(of, { x: "threads", y: value, dx, symbol: "path", r: 3.5, fill: report.color(path), title: (point) => `${path}, ${this.words(point.threads)}: ${text(point[value])}` }),
          ];
        }),
      ],
    });
    return report.figure(what, `${model}: ${what} by number of threads: ${shown.map((one) => one.path).join(", ")}`, chart);
  },

  table(lines) {
    const { h } = report;
    const numbers = this.numbers(lines);
    const ends = (low, high, text) => (low ? ` (${text(low)} to ${text(high)})` : "");
    const cell = function (point) {
      if (!point) return h("td", { class: "number" }, "–");
      if (!point.latency_ms) return h("td", {}, report.opener(point.index, point.reason));
      const latency = `${report.ms(point.latency_ms)} ms${ends(point.latency_low_ms, point.latency_high_ms, report.ms)}`;
      const known = point.efficiency ? report.percent(point.efficiency) : point.efficiency_low ? "unknown" : "?";
      const efficiency = `${known}${ends(point.efficiency_low, point.efficiency_high, report.percent)}`;
      return h("td", { class: "number" }, report.opener(point.index, latency), h("br"), efficiency);
    };
    const head = h("tr", {}, ["", ...numbers.map(this.words)].map((name, place) => h("th", { scope: "col", class: place > 0 && "number" }, name)));
    const body = lines.map((one) => h("tr", {}, h("th", { scope: "row" }, one.path), numbers.map((number) => cell(one.points.find((point) => point.threads === number)))));
    return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
  },

  numbers: (lines) => [...new Set(lines.flatMap((one) => one.points.map((point) => point.threads)))].sort((a, b) => a - b),

  words: (number) => (number === 1 ? "1 thread" : `${number} threads`),
};
