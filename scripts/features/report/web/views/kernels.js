"use strict";
/* Kernels: GB/s by shape and runtime, with the bandwidth of the machine as a line. */

report.views.kernels = {
  hasRows: false,

  draw(element, given) {
    const { h } = report;
    const data = { rows: report.withoutOneTarget(given.rows) };
    const width = report.panelWidth(element, 380);
    const groups = d3.groups(data.rows, (one) => [one.name, one.dtype, one.device, one.threads && `${one.threads} threads`].filter(Boolean).join(", "));
    const paths = [...new Set(data.rows.filter((one) => one.gb_per_s).map((one) => one.path))];
    element.append(
      this.means(data, paths),
      report.legend(paths),
      h("p", { class: "note" }, "GB/s by shape: bytes that a call has to read and write, each tensor once, divided by its latency. Lines: 99 % intervals. Dashed: bandwidth of the machine's memory."),
      h("div", { class: "panels wide" }, groups.map(([name, rows]) => this.panel(name, rows, paths, width))),
    );
    const failed = data.rows.filter((one) => !one.gb_per_s && one.ending !== "no device" && one.ending !== "compiled");
    if (failed.length) element.append(h("section", {}, h("h2", {}, "Failed"), h("ul", {}, failed.map((one) => h("li", {}, `${one.name} ${one.shape} ${one.dtype}, ${one.path}: ${one.reason || one.ending}`)))));
  },

  /** The mean share of the bandwidth, and the mean speed-up over eager, of each runtime. */
  means(data, paths) {
    const { h } = report;
    const mean = (values) => (values.length ? Math.exp(d3.mean(values, Math.log)) : null);
    const rows = paths.map((path) => {
      const of = data.rows.filter((one) => one.path === path);
      const timed = of.filter((one) => one.gb_per_s);
      const faster = mean(timed.map((one) => one.speedup_vs_eager).filter(Boolean));
      const share = mean(timed.map((one) => one.bandwidth_share).filter(Boolean));
      return h("tr", {}, h("th", { scope: "row" }, path), [`${timed.length} of ${of.length}`, faster ? faster.toFixed(2) : "–", share ? report.percent(share) : "–"].map((text) => h("td", { class: "number" }, text)));
    });
    return h("section", {}, h("h2", {}, "Geometric means"), h("table", {}, h("thead", {}, h("tr", {}, ["", "verified", "speed-up over eager", "share of the bandwidth"].map((name, place) => h("th", { scope: "col", class: place && "number" }, name)))), h("tbody", {}, rows)), h("p", { class: "note" }, "results/kernels.md has the intervals."));
  },

  panel(name, rows, paths, width) {
    const timed = rows.filter((one) => one.gb_per_s);
    const shapes = [...new Set(rows.map((one) => one.shape))];
    const limit = timed.find((one) => one.machine_gb_per_s)?.machine_gb_per_s;
    const shown = paths.filter((path) => timed.some((one) => one.path === path));
    const chart = report.plot({
      width,
      height: 210,
      marginBottom: 70,
      marginLeft: 50,
      x: { type: "point", domain: shapes, label: null, tickRotate: -35 },
      y: { label: "GB/s", zero: true, nice: true, grid: true, ticks: 5 },
      symbol: { domain: paths, range: paths.map(report.symbol) },
      marks: [
        limit && Plot.ruleY([limit], { stroke: "currentColor", strokeDasharray: "5 4" }),
        shown.map((path, number) => {
          const of = timed.filter((one) => one.path === path);
          const dx = 7 * (number - (shown.length - 1) / 2); // beside each other, so that intervals do not cover each other
          return [
            Plot.lineY(of, { x: "shape", y: "gb_per_s", dx, stroke: report.color(path), strokeOpacity: 0.5 }),
            Plot.ruleX(of.filter((one) => one.gb_per_s_low), { x: "shape", y1: "gb_per_s_low", y2: "gb_per_s_high", dx, stroke: report.color(path) }),
            Plot.dot(of, { x: "shape", y: "gb_per_s", dx, symbol: "path", r: 3.5, fill: report.color(path), title: (one) => `${one.path}, ${one.shape}: ${report.significant(one.gb_per_s, 3)} GB/s` }),
          ];
        }),
      ],
    });
    return report.figure(name, `${name}: ${shown.join(", ")}`, chart);
  },
};
