"use strict";
/* Charts with Observable Plot: colours, sizes and captions that all views share. Colours are those of Okabe and
   Ito (2008), which readers with any kind of colour vision can tell apart; lowering paths also differ in symbols
   and labels. */

report.COLORS = ["#0072b2", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a6761d", "#7570b3", "#999933"];
report.SYMBOLS = ["circle", "triangle", "square", "cross", "wye"];
report.SYMBOLS_OF_BASELINES = { eager: "diamond", inductor: "star" };

/** The colour of a lowering path or baseline, the same in all charts. */
report.color = function (path) {
  if (path === "eager") return "var(--eager)";
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

/** Rows with a `path`, without the target in it if all have the same. */
report.withoutOneTarget = function (rows) {
  const targets = new Set(rows.map((one) => one.path.split(" on ")[1]).filter(Boolean));
  return targets.size > 1 ? rows : rows.map((one) => ({ ...one, path: one.path.split(" on ")[0] }));
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
