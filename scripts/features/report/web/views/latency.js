"use strict";
/* Latencies: means, a scatter plot against a baseline, bars per model, and the table of rows. */

report.views.latency = {
  hasRows: true,
  base: "inductor",
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
    const charts = h("div", { class: "pair" });
    const scatter = h("section", {});
    const means = h("section", {});
    const bars = h("section", {});
    const rows = h("section", {});
    charts.append(means, scatter);
    element.append(timed.length ? charts : h("p", {}, "None of these rows has a latency."), bars, rows);
    if (timed.length) {
      this.drawMeans(means, data, indices);
      this.drawScatter(scatter, timed);
      this.drawBars(bars, timed);
    }
    const table = h("div", {});
    rows.append(h("h2", {}, "Rows"), table);
    report.drawTable(table, indices, this.table);
  },

  drawMeans(element, data, indices) {
    const { h } = report;
    const means = report.means(indices, data.quantiles);
    element.append(h("h2", {}, "Geometric means of the speed-up"));
    if (!means.length) {
      element.append(h("p", {}, "None of these rows can be compared with eager or inductor."));
      return;
    }
    const main = report.mainTarget(indices);
    const short = new Map(means.map((one) => [one, one.name.endsWith(")") ? one.name : report.shortPath(one.index, main)]));
    const points = means.flatMap((one) => one.over.map((over, place) => over && over.mean !== null && { ...over, name: short.get(one), path: one.path, base: `over ${data.bases[place]}` })).filter(Boolean);
    const width = report.width(element, 620);
    const ends = d3.extent([1, ...points.flatMap((one) => [one.low, one.high])]);
    const domain = [ends[0] / 1.1, ends[1] * 1.1];
    const marginLeft = Math.min(width * 0.45, 8 + 6.4 * d3.max(means, (one) => short.get(one).length));
    element.append(
      report.figure(
        `Above 1: faster. Lines: 99 % intervals of the errors of these measurements.${main && ` Without a target: on ${main}.`}`,
        points.map((one) => `${one.name} ${one.base}: ${one.mean.toFixed(2)}`).join("; "),
        report.plot({
          width,
          height: 50 + 22 * means.length * data.bases.length,
          marginLeft,
          x: { type: "log", label: "times as fast", grid: true, domain, ticks: 5, tickFormat: (value) => report.significant(value, 2) },
          y: { label: null, domain: [...short.values()] },
          fy: { label: null, axis: null },
          symbol: { domain: means.map((one) => one.path), range: means.map((one) => report.symbol(one.path)) },
          marks: [
            Plot.ruleX([1], { stroke: "currentColor", strokeOpacity: 0.6 }),
            Plot.ruleY(points, { y: "name", fy: "base", x1: "low", x2: "high", stroke: (one) => report.color(one.path), strokeWidth: 2 }),
            Plot.dot(points, { y: "name", fy: "base", x: "mean", r: 4, symbol: "path", fill: (one) => report.color(one.path), title: (one) => `${one.name} ${one.base}: ${this.text(one)}` }),
            Plot.text(data.bases.map((base) => `over ${base}`), { fy: (one) => one, text: (one) => one, frameAnchor: "top-left", dy: -10, fontWeight: 600, textAnchor: "start" }),
          ],
          marginTop: 24,
        }),
      ),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["of", "verified", ...data.bases.map((base) => `over ${base}`)].map((name, place) => h("th", { scope: "col", class: place && "number" }, name)))),
        h("tbody", { class: "means" }, means.map((one) => h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { class: "number" }, `${one.verified} of ${one.rows}`), one.over.map((over) => h("td", { class: "number" }, over ? this.text(over, one) : "–"))))))),
      h("p", { class: "note" }, "A row that was not measured is in no mean, so means of different rows do not compare."),
    );
  },

  /** As in latency.md: `1.21 (1.05 to 1.39)`, with the number of rows if not all are in it. */
  text(over, mean) {
    if (over.mean === null) return "?";
    if (!report.isKnown(over)) return "unknown";
    return `${over.mean.toFixed(2)} (${over.low.toFixed(2)} to ${over.high.toFixed(2)})` + (mean && over.count !== mean.verified ? `, ${over.count} rows` : "");
  },

  drawScatter(element, timed) {
    const { h } = report;
    const choice = h("select", { "aria-label": "Baseline", onchange: (event) => {
      this.base = event.target.value;
      element.replaceChildren();
      this.drawScatter(element, timed);
    } }, ["inductor", "eager"].map((name) => h("option", { value: name, selected: name === this.base }, name)));
    element.append(h("h2", {}, "IREE against ", choice));
    const rows = timed.filter((index) => report.of(index, "runtime") === "iree" && report.of(index, `speedup_vs_${this.base}`) !== null);
    if (!rows.length) {
      element.append(h("p", {}, `None of these rows can be compared with ${this.base}.`));
      return;
    }
    const points = rows.map((index) => {
      const y = report.of(index, "latency_ms");
      const end = (which) => report.of(index, `speedup_vs_${this.base}_${which}`);
      const x = y * report.of(index, `speedup_vs_${this.base}`);
      const told = end("low") !== null && (end("low") > 1 || end("high") < 1);
      return { index, x, y, told, path: report.of(index, "path"), low: report.of(index, "latency_low_ms"), high: report.of(index, "latency_high_ms") };
    });
    const paths = [...new Set(points.map((one) => one.path))];
    const ends = d3.extent(points.flatMap((one) => [one.x, one.y]));
    const domain = [ends[0] / 1.4, ends[1] * 1.4];
    const size = report.width(element, 460);
    const chart = report.plot({
      width: size,
      height: size * 0.86,
      marginLeft: 48,
      x: { type: "log", domain, label: `${this.base}, ms`, grid: true, ticks: 5, tickFormat: (value) => report.significant(value, 1) },
      y: { type: "log", domain, label: "IREE, ms", grid: true, ticks: 5, tickFormat: (value) => report.significant(value, 1) },
      symbol: { domain: paths, range: paths.map(report.symbol) },
      marks: [
        Plot.link([0], { x1: domain[0], y1: domain[0], x2: domain[1], y2: domain[1], stroke: "currentColor", strokeOpacity: 0.5, strokeDasharray: "4 3" }),
        Plot.ruleX(points.filter((one) => one.low !== null), { x: "x", y1: "low", y2: "high", stroke: (one) => report.color(one.path), strokeOpacity: 0.6 }),
        Plot.dot(points, { x: "x", y: "y", symbol: "path", r: 4, stroke: (one) => report.color(one.path), strokeWidth: 1.5, fill: (one) => (one.told ? report.color(one.path) : "var(--paper)"), title: (one) => `${report.of(one.index, "cell")}\nIREE ${report.ms(one.y)} ms\n${this.base} ${report.ms(one.x)} ms\nspeed-up ${report.speedup(one.index, this.base)}` }),
        Plot.text([0], { frameAnchor: "bottom-right", dx: -6, dy: -6, text: () => "IREE is faster", fillOpacity: 0.7 }),
        Plot.text([0], { frameAnchor: "top-left", dx: 6, dy: 10, text: () => `${this.base} is faster`, fillOpacity: 0.7 }),
      ],
    });
    this.openable(chart, points);
    element.append(
      report.legend(paths),
      report.figure("A point per row; lines: 99 % intervals. Filled: the interval of the ratio does not contain 1. A click opens the row.", `IREE against ${this.base}, ${points.length} rows`, chart),
    );
  },

  /** Make the points of a chart open their rows; the table has the same rows for the keyboard. */
  openable(chart, points) {
    const groups = chart.querySelectorAll('g[aria-label="dot"]');
    const shapes = groups[groups.length - 1].children;
    points.forEach((one, place) => {
      const shape = shapes[place];
      if (shape) {
        shape.dataset.row = one.index;
        shape.style.cursor = "pointer";
      }
    });
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
        Plot.barX(bars, { x: (one) => Math.min(one.ms, cut ?? Infinity), y: "name", fill: (one) => report.color(one.path), fillOpacity: 0.75, title: (one) => `${report.of(one.index, "cell")}: ${report.latency(one.index)}${one.doubt ? `\n${one.doubt}` : ""}` }),
        Plot.ruleY(bars.filter((one) => one.low !== null && one.ms <= (cut ?? Infinity)), { x1: "low", x2: (one) => Math.min(one.high, cut ?? Infinity), y: "name", stroke: "currentColor", strokeWidth: 1.2 }),
        Plot.text(bars, { x: (one) => Math.min(Math.max(one.high ?? one.ms, one.ms), cut ?? Infinity), y: "name", dx: 4, textAnchor: "start", text: (one) => (one.doubt ? "†" : "") + report.ms(one.ms) + (cut && one.ms > cut ? " →" : "") }),
        Plot.ruleX([0]),
      ],
    });
    return report.figure(name, `${name}: ${bars.map((one) => `${one.name} ${report.ms(one.ms)} ms`).join(", ")}`, chart);
  },
};
