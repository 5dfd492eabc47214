"use strict";
/* The rows of the page by index, and what is said of a row wherever it appears. */

/** Take the table of rows.py. */
report.setRows = function (table) {
  report.table = table;
  report.count = table.values.cell.length;
  report.column = new Map(table.columns.map((one) => [one.name, one]));
};

/** The value of a column of a row. */
report.of = (index, column) => report.table.values[column][index];

/** Every index. */
report.every = () => Array.from({ length: report.count }, (_, index) => index);

/** `torchmlir-torch on llvm-cpu`, or the name of a baseline. */
report.pathOn = function (index) {
  const on = report.of(index, "on");
  return on === "baseline" ? report.of(index, "path") : `${report.of(index, "path")} on ${on}`;
};

/** The target of most of some rows, which charts leave out of names. */
report.mainTarget = function (indices) {
  const targets = d3.rollups(indices.filter((index) => report.of(index, "on") !== "baseline"), (group) => group.length, (index) => report.of(index, "on"));
  return d3.greatest(targets, ([, count]) => count)?.[0] ?? "";
};

/** The same name without the main target. */
report.shortPath = (index, main) => (report.of(index, "on") === main ? report.of(index, "path") : report.pathOn(index));

report.modelOf = function (index) {
  const test = report.of(index, "test");
  return report.of(index, "model") + (test === "eval" ? "" : ` (${test})`);
};

/** The ending of a row in a word or a sign, for narrow places. */
report.mark = function (index) {
  const ending = report.of(index, "ending");
  if (ending === "verified") return report.of(index, "remedy") ? "✓ remedy" : "✓";
  if (ending === "other path") return "via other path";
  if (ending === "failed") return report.of(index, "reason") || report.of(index, "status");
  return ending;
};

/** Whether a row has a latency of its own lowering path. */
report.isTimed = (index) => report.of(index, "ending") === "verified";

report.endingClass = (ending) => `ending-${ending.replaceAll(" ", "-")}`;

/** Whether an interval is narrow enough for its value to be a number: ±50 %, as Interval.is_known in scripts/timing/ratios.py. */
report.isKnown = ({ low, high }) => Math.sqrt(high / low) <= 1.5 * (1 + 1e-12);

/** A speed-up with its interval as text: `?` without an interval, and `–` where there is nothing to compare with. */
report.speedup = function (index, base) {
  const value = report.of(index, `speedup_vs_${base}`);
  const [low, high] = ["low", "high"].map((end) => report.of(index, `speedup_vs_${base}_${end}`));
  if (value === null && low !== null) return "unknown";
  if (value === null) return report.table.over[index]?.[base === "eager" ? 0 : 1] ? "?" : "–";
  return value.toFixed(2) + (low === null ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`);
};

/** A latency with its interval as text. */
report.latency = function (index) {
  const value = report.of(index, "latency_ms");
  if (value === null) return "–";
  const [low, high] = [report.of(index, "latency_low_ms"), report.of(index, "latency_high_ms")];
  if (low !== null && !report.isKnown({ low, high })) return "unknown";
  const ends = low === null ? " (?)" : ` (${report.ms(low)} to ${report.ms(high)})`;
  return `${report.ms(value)} ms${ends}`;
};

/** A button that opens the details of a row, for which app.js listens; on a page without details a link to the page that has them. */
report.opener = function (index, ...content) {
  if (!report.column.has("page")) return report.h("button", { type: "button", class: "opener", "data-row": index }, ...content);
  const href = `${report.root}models/${report.of(index, "page")}.html#latency?cell=${encodeURIComponent(report.of(index, "cell"))}`;
  return report.h("a", { class: "opener", href }, ...content);
};

/* Means of speed-ups over any selection of rows, by the formulas of scripts/timing/ratios.py. */

/** The two-sided 99 % quantile of the t distribution, interpolated between known ones. */
report.quantile = function (quantiles, df) {
  const x = 1 / df;
  const at = quantiles.findIndex(([known]) => known >= x);
  const after = at < 0 ? quantiles.length - 1 : Math.max(1, at);
  const [[x0, y0], [x1, y1]] = [quantiles[after - 1], quantiles[after]];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
};

/** Geometric mean of speed-ups: [logarithm, scale, degrees of freedom] of each. */
report.meanRatio = function (logs, quantiles) {
  const mean = d3.mean(logs, ([value]) => value);
  const parts = logs.map(([, scale, df]) => [(scale / logs.length) ** 2, df]);
  const variance = d3.sum(parts, ([part]) => part);
  const df = variance ? variance ** 2 / d3.sum(parts, ([part, own]) => part ** 2 / own) : 1;
  const half = report.quantile(quantiles, df) * Math.sqrt(variance);
  return { mean: Math.exp(mean), count: logs.length, low: Math.exp(mean - half), high: Math.exp(mean + half) };
};

/** The geometric means of each column (path, target, test) over the selected rows. */
report.means = function (indices, quantiles) {
  const groups = new Map();
  for (const index of indices) {
    const name = report.pathOn(index) + (report.of(index, "test") === "eval" ? "" : ` (${report.of(index, "test")})`);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(index);
  }
  const found = [];
  for (const [name, group] of groups) {
    const timed = group.filter(report.isTimed);
    const over = [0, 1].map(function (place) {
      // A speed-up that is not known may be wrong by any factor: it is [].
      const every = timed.map((index) => report.table.over[index][place]).filter(Boolean);
      const logs = every.filter((log) => log.length);
      return logs.length ? report.meanRatio(logs, quantiles) : every.length ? { mean: null, count: 0 } : null;
    });
    if (over.some(Boolean)) {
      found.push({ name, index: group[0], path: report.of(group[0], "path"), verified: timed.length, rows: group.length, over });
    }
  }
  return found;
};
