"use strict";
/* What all parts of the page use: elements, compressed data, numbers as text, rows by index, colours. Texts from the data become
   text nodes; nothing is parsed as HTML. */
const report = { views: {} };

/** An element with attributes and children. Strings and numbers become text nodes; null is left out. */
report.h = function (tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
};

/** The JSON of a data element of the page. It is decompressed once. */
report.data = function (name) {
  report.loaded ??= new Map();
  if (!report.loaded.has(name)) report.loaded.set(name, report.decompress(name));
  return report.loaded.get(name);
};

/** JSON that was compressed with gzip, from base64. */
report.decompress = async function (name) {
  const element = document.getElementById(`data-${name}`);
  const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
  element.textContent = "";
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
};

/** [key, members] of the groups of some values, in the order of their first members. */
report.groups = function (values, key) {
  const groups = new Map();
  for (const value of values) {
    if (!groups.has(key(value))) groups.set(key(value), []);
    groups.get(key(value)).push(value);
  }
  return [...groups];
};

report.significant = function (value, digits) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  if (size < -4) return value.toExponential(digits - 1);
  const places = Math.max(0, digits - 1 - size);
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
};

report.bytes = function (value) {
  const [unit, size] = d3.greatest([["B", 1], ["KiB", 2 ** 10], ["MiB", 2 ** 20], ["GiB", 2 ** 30]], ([, size]) => (value >= size ? size : 0));
  return `${size === 1 ? value : report.significant(value / size, 3)} ${unit}`;
};

/** A button that copies a text, beside it. */
report.command = function (text) {
  const { h } = report;
  const button = h("button", { type: "button", class: "copy", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
  }
  const code = h("code", {}, text);
  return h("div", { class: "command" }, code, button);
};

/** Offer a text as a file to save. */
report.save = function (name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  report.h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};

/** Take the rows (page_source.table_of_rows). */
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

/** Whether an interval is narrow enough for its value to be a number: ±50 %, as Interval.is_known in scripts/measure/timing/ratios.py. */
report.isKnown = ({ low, high }) => Math.sqrt(high / low) <= 1.5 * (1 + 1e-12);

/** A speed-up with its interval as text: `?` without an interval, and `–` where there is nothing to compare with. */
report.speedup = function (index, base) {
  const value = report.of(index, `speedup_vs_${base}`);
  const [low, high] = ["low", "high"].map((end) => report.of(index, `speedup_vs_${base}_${end}`));
  if (value === null && low !== null) return "unknown";
  if (value === null) return report.table.over[index]?.[base === "eager" ? 0 : 1] ? "?" : "–";
  return value.toFixed(2) + (low === null ? "" : ` (${low.toFixed(2)} to ${high.toFixed(2)})`);
};

/** A button that opens the details of a row, for which app.js listens. */
report.opener = (index, ...content) => report.h("button", { type: "button", class: "opener", "data-row": index }, ...content);

/* Means of speed-ups over any selection of rows, by the formulas of scripts/measure/timing/ratios.py. */

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

/* Charts with Observable Plot. Colours are those of Okabe and Ito (2008), which readers with any kind of colour vision can tell apart;
   lowering paths also differ in symbols and labels. */

report.COLORS = ["#0072b2", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a6761d", "#7570b3", "#999933"];
report.SYMBOLS = ["circle", "triangle", "square", "cross", "wye"];
report.SYMBOLS_OF_BASELINES = { eager: "diamond", inductor: "star" };

/** The colour of a lowering path or baseline, the same in all charts. */
report.color = function (path) {
  if (path === "eager" || path.startsWith("anchor")) return "var(--eager)";
  if (path === "inductor") return "#e69f00";
  return report.COLORS[report.place(path) % report.COLORS.length];
};

report.symbol = (path) => report.SYMBOLS_OF_BASELINES[path] ?? report.SYMBOLS[report.place(path) % report.SYMBOLS.length];

report.place = function (path) {
  report.places ??= [...new Set(report.table.values.path)].filter((one) => one !== "eager" && one !== "inductor");
  if (!report.places.includes(path)) report.places.push(path);
  return report.places.indexOf(path);
};

/** A figure with a caption; `about` is its description for screen readers. */
report.figure = function (caption, about, chart) {
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", about);
  return report.h("figure", {}, caption && report.h("figcaption", {}, caption), chart);
};

/** Options that all charts have. */
report.plot = (options) =>
  Plot.plot({
    style: { background: "transparent", fontFamily: "inherit", fontSize: "11px", overflow: "visible" },
    ...options,
  });

/** The width of a chart that fills an element, in pixels. */
report.width = (element, most = 1100) => Math.max(280, Math.min(most, element.clientWidth || 900));

/** The width of a chart in a grid of panels that are at least so wide (.panels in style.css). */
report.panelWidth = function (element, least) {
  const whole = element.clientWidth || 900;
  const count = Math.max(1, Math.floor((whole + 16) / (least + 16)));
  return Math.floor((whole - 16 * (count - 1)) / count);
};

/** A legend of lowering paths with their symbols. */
report.legend = (paths) =>
  report.h(
    "p",
    { class: "legend" },
    paths.map((path) => report.h("span", {}, report.swatch(path), path)),
  );

report.swatch = function (path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of [["width", 12], ["height", 12], ["viewBox", "-6 -6 12 12"], ["aria-hidden", "true"]]) {
    svg.setAttribute(name, value);
  }
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const name = report.symbol(path);
  shape.setAttribute("d", d3.symbol(d3[`symbol${name[0].toUpperCase()}${name.slice(1)}`], 40)());
  shape.style.fill = report.color(path);
  svg.append(shape);
  return svg;
};
