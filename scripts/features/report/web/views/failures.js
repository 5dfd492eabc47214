"use strict";
/* Failures by cause: a section per cluster. */

report.views.failures = {
  hasRows: true,

  draw(element, data, indices) {
    const { h } = report;
    const chosen = new Set(indices.map((index) => report.of(index, "cell")));
    const found = data.clusters
      .map((one) => ({ ...one, cells: one.cells.filter(([cell]) => chosen.has(cell)) }))
      .filter((one) => one.cells.length);
    const open = found.filter((one) => !one.made_good);
    const good = found.filter((one) => one.made_good);
    if (!found.length) element.append(h("p", {}, data.clusters.length ? "None of these rows failed." : "No row failed. Rows without a device are not failures; the overview has them."));
    if (open.length) element.append(h("h2", {}, `Not compiled or not verified (${open.length} causes, ${d3.sum(open, (one) => one.cells.length)} rows)`), ...open.map((one) => this.cluster(one)));
    if (good.length) {
      element.append(
        h("h2", {}, `Compiled by a remedy (${good.length} causes, ${d3.sum(good, (one) => one.cells.length)} rows)`),
        h("p", { class: "note" }, "What was asked for failed. Another lowering path, opt level or flags worked."),
        ...good.map((one) => this.cluster(one)),
      );
    }
  },

  cluster(one) {
    const { h } = report;
    const targets = d3.rollups(one.cells, (group) => group.length, ([cell]) => cell.split("/").slice(1).join("/"));
    return h(
      "details",
      { class: "cluster" },
      h(
        "summary",
        {},
        h("span", { class: "count" }, one.cells.length, h("small", {}, one.cells.length === 1 ? " row" : " rows")),
        h("span", {}, h("strong", {}, `${one.stage}: ${one.reason || one.statuses.join(", ")}`), " ", h("code", {}, one.signature)),
        h("small", {}, targets.map(([name, count]) => `${name} ×${count}`).join(", ")),
        one.blocks.length > 0 && h("small", { class: "blocks" }, `${one.made_good ? "the only failure of" : "alone blocks"} ${this.blocked(one)}`),
      ),
      h("div", { class: "columns" },
        h("section", {}, h("h3", {}, "Rows"), h("ul", {}, one.cells.map(([cell, status, remedy, tried]) => h("li", {}, this.opener(cell), remedy ? ` compiled by ${remedy}` : ` ${status}`, tried && !remedy && `; tried ${tried}`)))),
        h("section", {}, h("h3", {}, "Known remedies"), one.remedies.length ? h("dl", {}, one.remedies.map(([name, does]) => h("div", {}, h("dt", {}, name), h("dd", {}, does)))) : h("p", {}, "None is known for this reason.")),
        one.blocks.length > 0 && h("section", {}, h("h3", {}, one.made_good ? "Models without another failure" : "Models that only this blocks"), h("ul", {}, one.blocks.map(([model, target, by]) => h("li", {}, `${model} on ${target}`, by && `: compiled by ${by}`)))),
      ),
      h("h3", {}, "Example: ", one.example.cell),
      h("pre", {}, one.example.detail),
      one.example.command && h("div", {}, h("h4", {}, "Shortest command"), report.command(one.example.command)),
      one.example.log_end && h("details", {}, h("summary", {}, `End of ${one.example.log}`), h("pre", { tabindex: 0 }, one.example.log_end)),
    );
  },

  /** `gat, gcn on cuda; resnet on rocm`. */
  blocked: (one) =>
    d3.groups(one.blocks, ([, target]) => target)
      .map(([target, found]) => `${found.map(([model]) => model).slice(0, 6).join(", ")}${found.length > 6 ? ` and ${found.length - 6} more` : ""} on ${target}`)
      .join("; "),

  opener(cell) {
    const index = report.table.values.cell.indexOf(cell);
    return index < 0 ? cell : report.opener(index, cell);
  },
};
