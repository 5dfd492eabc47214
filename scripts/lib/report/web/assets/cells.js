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

report.endingClass = (ending) => `ending-${ending.replaceAll(" ", "-")}`;

/** A speed-up with its interval as text. */
report.speedup = function (index, base) {
  const value = report.of(index, `speedup_vs_${base}`);
  if (value === null) return "–";
  const [low, high] = ["low", "high"].map((end) => report.of(index, `speedup_vs_${base}_${end}`));
  return value.toFixed(2) + (low === null ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`);
};

/** A latency with its interval as text. */
report.latency = function (index) {
  const value = report.of(index, "latency_ms");
  if (value === null) return "–";
  const low = report.of(index, "latency_low_ms");
  const ends = low === null ? "" : ` (${report.ms(low)} to ${report.ms(report.of(index, "latency_high_ms"))})`;
  return `${report.ms(value)} ms${ends}`;
};

/** A button that opens the details of a row. app.js listens for it. */
report.opener = (index, ...content) =>
  report.h("button", { type: "button", class: "opener", "data-row": index }, ...content);

/* Means of speed-ups over any selection of rows, by the formulas of scripts/lib/report/ratio.py. */

/** The two-sided 95 % quantile of the t distribution, interpolated between known ones. */
report.quantile = function (quantiles, df) {
  const x = 1 / df;
  const at = quantiles.findIndex(([known]) => known >= x);
  const after = at < 0 ? quantiles.length - 1 : Math.max(1, at);
  const [[x0, y0], [x1, y1]] = [quantiles[after - 1], quantiles[after]];
  return y0 + ((y1 - y0) * (x - x0)) / (x1 - x0);
};

/** Geometric mean of the speed-ups of rows over bases; `pairs` are their errors: [base, row]. */
report.meanRatio = function (pairs, quantiles) {
  const mean = pairs.reduce((sum, [base, row]) => sum + base[0] - row[0], 0) / pairs.length;
  const parts = pairs.flat();
  const found = { mean: Math.exp(mean), low: null, high: null, count: pairs.length };
  if (parts.some((one) => one.length < 3)) return found;
  const variance = parts.reduce((sum, one) => sum + one[1], 0);
  let second = 0;
  let fourth = 0;
  for (const [, own, df] of parts) {
    const spread = df / (df - 2);
    second += (spread * own) / variance;
    fourth += ((spread * own) / variance) ** 2 / (df - 4);
  }
  const df = 4 + second ** 2 / fourth;
  const scale = Math.sqrt((variance * second * (df - 2)) / df);
  const half = (report.quantile(quantiles, df) * scale) / pairs.length;
  return { ...found, low: Math.exp(mean - half), high: Math.exp(mean + half) };
};

/** The errors of the fastest of some runtimes that a row can be compared with; null if one is missing. */
report.baseOf = function (index, runtimes) {
  report.bases ??= report.basesByKind();
  const found = runtimes.map((name) => report.bases.get(`${report.table.alike[index]} ${name}`));
  if (found.includes(undefined)) return null;
  return found.reduce((best, one) => (one[0] < best[0] ? one : best));
};

report.basesByKind = function () {
  const found = new Map();
  for (const index of report.every()) {
    const errors = report.table.errors[index];
    const key = `${report.table.alike[index]} ${report.of(index, "compared_as")}`;
    if (errors && !found.has(key)) found.set(key, errors);
  }
  return found;
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
    const timed = group.filter((index) => report.table.errors[index]);
    const over = [["eager"], ["eager", "inductor"]].map(function (runtimes) {
      const pairs = timed
        .filter((index) => !runtimes.includes(report.of(index, "compared_as")))
        .map((index) => [report.baseOf(index, runtimes), report.table.errors[index]])
        .filter(([base]) => base);
      return pairs.length ? report.meanRatio(pairs, quantiles) : null;
    });
    if (over.some(Boolean)) {
      found.push({ name, index: group[0], path: report.of(group[0], "path"), verified: timed.length, rows: group.length, over });
    }
  }
  return found;
};
