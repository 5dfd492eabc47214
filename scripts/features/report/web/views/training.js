"use strict";
/* Training steps: a table per model, with the latency of the step and of the forward pass by each runtime and lowering path. */

report.views.training = {
  hasRows: false,

  draw(element, given) {
    const { h } = report;
    const paths = [...new Set(given.rows.map((one) => one.path))];
    element.append(
      report.legend(paths),
      h("p", { class: "note" }, "Latency of a training step (forward pass, loss, backward pass, optimizer). The filled part is the forward pass alone, where it was measured. Steps: successive steps whose loss is eager's."),
      h("div", { class: "panels wide" }, d3.groups(given.rows, (one) => one.model).map(([model, rows]) => this.panel(model, rows, report.panelWidth(element, 480)))),
    );
  },

  /** Bars of one model, and a table with the figures and the reason of each step that failed. */
  panel(model, rows, width) {
    const { h } = report;
    const timed = rows.filter((one) => one.latency_ms);
    const longest = d3.max(timed, (one) => one.path.length) || 0;
    const chart = timed.length && report.plot({
      width,
      height: 46 + 26 * timed.length,
      marginLeft: Math.min(width / 2, 16 + 6.5 * longest),
      x: { label: "ms", zero: true, grid: true, ticks: 5 },
      y: { type: "band", domain: timed.map((one) => one.path), label: null },
      marks: [
        Plot.barX(timed, { x: "latency_ms", y: "path", fill: (one) => report.color(one.path), fillOpacity: 0.35, title: (one) => `${one.path}: ${report.significant(one.latency_ms, 3)} ms` }),
        Plot.barX(timed.filter((one) => one.forward_ms), { x: (one) => Math.min(one.forward_ms, one.latency_ms), y: "path", fill: (one) => report.color(one.path), title: (one) => `forward pass: ${report.significant(one.forward_ms, 3)} ms` }),
      ],
    });
    const names = ["", "step (ms)", "forward pass", "over eager", "over inductor", "steps", "ending"];
    const number = (value, digits) => (value ? report.significant(value, digits) : "–");
    const body = rows.map((one) =>
      h("tr", {}, [
        h("th", { scope: "row" }, report.opener(one.index, one.path)),
        h("td", { class: "number" }, number(one.latency_ms, 3)),
        h("td", { class: "number" }, one.forward_ms && one.latency_ms ? report.percent(one.forward_ms / one.latency_ms) : "–"),
        h("td", { class: "number" }, number(one.speedup_vs_eager, 3)),
        h("td", { class: "number" }, number(one.speedup_vs_inductor, 3)),
        h("td", { class: "number" }, one.steps || "–"),
        h("td", {}, one.reason ? `${one.ending}: ${one.reason}` : one.ending),
      ]),
    );
    const head = h("tr", {}, names.map((name, place) => h("th", { scope: "col", class: place > 0 && place < 6 && "number" }, name)));
    const table = h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
    return h("section", {}, chart && report.figure(model, `${model}: latency of a training step by path`, chart), !chart && h("h2", {}, model), table, this.losses(rows.filter((one) => one.losses.length)));
  },

  /** The loss of each successive step in eager mode and by each path, in a part of the page that can be opened. */
  losses(rows) {
    const { h } = report;
    if (!rows.length) return null;
    const value = (loss) => h("td", { class: "number" }, loss === null ? "not finite" : loss === undefined ? "–" : loss.toPrecision(7));
    // Rows of other options or older runs may have been compared with other losses.
    const tables = d3.groups(rows, (one) => one.golden_losses.join()).map(([, alike]) => {
      const head = h("tr", {}, ["step", "eager", ...alike.map((one) => one.path)].map((name, place) => h("th", { scope: "col", class: place > 0 && "number" }, name)));
      const body = alike[0].golden_losses.map((loss, step) => h("tr", {}, [h("th", { scope: "row" }, `${step + 1}`), value(loss), ...alike.map((one) => value(one.losses[step]))]));
      return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
    });
    return h("details", {}, h("summary", {}, "Losses of successive steps"), tables);
  },
};
