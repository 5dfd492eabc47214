"use strict";
/* Draws sections (scripts/results/page_sections.py): notes, tables, texts and charts, as far as the filters select their rows. */

report.CHARTS = 60;

report.views.sections = {
  draw(element, sections, indices) {
    const chosen = new Set(indices);
    const kept = sections.map((section) => report.filtered(section, chosen)).filter(Boolean);
    if (!kept.length) element.append(report.h("p", {}, "None of the selected rows is here."));
    for (const section of kept) report.drawSection(element, section);
  },
};

/** A section with the lines of its table and charts that are about some rows or about none; null if nothing of it is left. */
report.filtered = function (section, chosen) {
  const within = (place) => [place ?? []].flat().filter((row) => chosen.has(row));
  const isKept = (place) => place === null || place === undefined || within(place).length > 0;
  const { rows = [], places = [], charts = [], parts = [] } = section;
  const lines = rows.map((row, line) => [row, places[line]]).filter(([, place]) => isKept(place));
  const kept = {
    ...section,
    rows: lines.map(([row]) => row),
    places: lines.map(([, place]) => within(place)[0]),
    charts: charts.map((chart) => ({ ...chart, lines: chart.lines.filter((line) => isKept(line.place)) })).filter((chart) => chart.lines.length),
    parts: parts.map((part) => report.filtered(part, chosen)).filter(Boolean),
  };
  const isGone = rows.length ? !kept.rows.length : (charts.length || parts.length) && !(kept.charts.length || kept.parts.length);
  return isGone ? null : kept;
};

/** Add a section to an element. A folded one is drawn when it is opened. */
report.drawSection = function (element, section, level = 2) {
  const { h } = report;
  const title = section.title ?? "";
  if (!section.folded) {
    const drawn = h("section", {}, title && h(`h${Math.min(level, 4)}`, {}, title));
    element.append(drawn);
    return report.drawContent(drawn, section, level);
  }
  const inside = h("div", {});
  const open = (event) => event.target === folded && !inside.firstChild && report.drawContent(inside, section, level);
  const folded = h("details", { class: "folded", ontoggle: open }, h("summary", {}, title), inside);
  element.append(folded);
};

report.drawContent = function (element, section, level) {
  const { h } = report;
  const { note, lines = [], rows = [], text, command, charts = [], parts = [] } = section;
  if (note) element.append(h("p", { class: "note" }, note));
  if (lines.length) element.append(h("ul", {}, lines.map((line) => h("li", {}, line))));
  if (charts.length) report.drawCharts(element, charts);
  if (rows.length) element.append(report.sectionTable(section));
  if (text) element.append(h("pre", { tabindex: 0 }, text));
  if (command) element.append(report.command(command));
  for (const part of parts) report.drawSection(element, part, level + 1);
};

/** The table of a section. A cell is a text, or has a `text`, a `style` and a `share`. The first cell opens the row that the line is about. */
report.sectionTable = function ({ head = [], rows, right = [], places = [] }) {
  const { h } = report;
  const kind = (place, cell) => [right.includes(place) && "number", cell?.style, cell?.share && "share"].filter(Boolean).join(" ") || null;
  const content = (cell, line, place) => (place === 0 && places[line] !== undefined ? report.opener(places[line], cell?.text ?? cell) : (cell?.text ?? cell));
  const cells = (row, line) => row.map((cell, place) => h("td", { class: kind(place, cell), style: cell?.share ? { "--share": cell.share } : {} }, content(cell, line, place)));
  const columns = head.length > 0 && h("thead", {}, h("tr", {}, head.map((name, place) => h("th", { scope: "col", class: kind(place) }, name))));
  return h("div", { class: "scroll" }, h("table", { class: head.length ? "rows texts" : "facts texts" }, columns, h("tbody", {}, rows.map((row, line) => h("tr", {}, cells(row, line))))));
};

report.drawCharts = function (element, charts) {
  const { h } = report;
  const several = charts.filter((chart) => chart.lines.length > 1 && !chart.dots && !chart.stacked);
  if (several.length) element.append(report.legend([...new Set(several.flatMap((chart) => chart.lines.map((line) => line.path)))]));
  const panels = h("div", { class: charts.length > 1 ? "panels wide" : null });
  element.append(panels);
  const width = charts.length > 1 ? report.panelWidth(element, 380) : report.width(element, 900);
  panels.append(...charts.slice(0, report.CHARTS).map((chart) => report.drawChart(chart, width)));
  const rest = charts.length - report.CHARTS;
  if (rest > 0) element.append(h("p", { class: "note" }, `${rest} more charts; select fewer rows to see them.`));
};

report.drawChart = (chart, width) => (chart.dots ? report.dotChart : chart.stacked ? report.stackedChart : report.lineChart)(chart, width);

/** A bar per tick, of the lines one after the other. */
report.stackedChart = function (chart, width) {
  const parts = chart.lines.flatMap(({ name, points }) => points.map(([bar, ms]) => ({ name, bar: chart.ticks[bar], ms })));
  const names = chart.lines.map((line) => line.name);
  const text = (one) => `${one.bar}: ${one.name} ${report.significant(one.ms, 3)} ${chart.y}`;
  const plot = report.plot({
    width,
    height: 60 + 26 * chart.ticks.length,
    marginLeft: Math.min(330, 0.5 * width, 20 + 6 * d3.max(chart.ticks, (name) => name.length)),
    x: { label: chart.y, grid: true },
    y: { domain: chart.ticks, label: null },
    color: { domain: names, range: ["var(--eager)", ...report.COLORS], legend: true },
    marks: [Plot.barX(parts, { x: "ms", y: "bar", fill: "name", order: names, title: text })],
  });
  return report.figure(chart.title, `${chart.title}: ${parts.map(text).join("; ")}`, plot);
};

/** Values with their intervals, a line per path. */
report.lineChart = function (chart, width) {
  const { ticks = [], marks = [], rule } = chart;
  const named = (x) => (ticks.length ? (ticks[x] ?? "") : report.significant(x, 3));
  const values = chart.lines.flatMap((line) => line.points.map(([, y]) => y));
  const [least, most] = d3.extent(values);
  // An interval that is much wider than the values would leave nothing of them to see.
  const cut = (end) => Math.min(2 * most, Math.max(least / 2, end));
  const text = (one) => `${one.name}, ${named(one.x)}: ${report.significant(one.y, 3)} ${chart.y}`;
  const step = Math.max(1, Math.ceil((ticks.length * 65) / width));
  const isLong = ticks.some((name) => name.length > 10);
  const ground = [[0, 1 / 1.05, "var(--slower)"], [1 / 1.05, 1.05, "var(--eager)"], [1.05, Infinity, "var(--faster)"]];
  const [bottom, top] = d3.extent(chart.lines.flatMap((line) => line.points.flatMap(([, y, low, high]) => [cut(low ?? y), cut(high ?? y)])));
  const bands = ground.map(([from, to, fill]) => ({ fill, from: Math.max(from, bottom), to: Math.min(to, top) })).filter((one) => one.from < one.to);
  const lines = chart.lines.map(function (line, number) {
    const points = line.points.map(([x, y, low, high]) => ({ x, y, low, high, name: line.name }));
    const dx = ticks.length ? 7 * (number - (chart.lines.length - 1) / 2) : 0; // beside each other, so that intervals do not cover each other
    const stroke = chart.lines.length > 1 ? report.color(line.path) : "var(--accent)";
    const dots = points.length > 60 ? [d3.greatest(points, (one) => one.y)] : points;
    return [
      Plot.lineY(points, { x: "x", y: "y", dx, stroke, strokeOpacity: 0.6 }),
      Plot.ruleX(points.filter((one) => one.low !== null), { x: "x", y1: (one) => cut(one.low), y2: (one) => cut(one.high), dx, stroke }),
      Plot.dot(dots, { x: "x", y: "y", dx, symbol: chart.lines.length > 1 ? report.symbol(line.path) : "circle", r: 3, fill: stroke, title: text }),
    ];
  });
  const plot = report.plot({
    width,
    height: isLong ? 240 : 190,
    marginLeft: 60,
    marginBottom: isLong ? 80 : 34,
    x: ticks.length
      ? { label: chart.x ?? null, domain: [-0.5, ticks.length - 0.5], ticks: d3.range(0, ticks.length, isLong ? 1 : step), tickFormat: named, tickRotate: isLong ? -35 : 0 }
      : { label: chart.x ?? null },
    y: { label: chart.y, grid: true, nice: true, ticks: 4, zero: least < 0.6 * most },
    marks: [
      chart.bands ? Plot.rect(bands, { x1: -0.5, x2: ticks.length - 0.5, y1: "from", y2: "to", fill: "fill", fillOpacity: 0.16 }) : null,
      rule === undefined ? null : Plot.ruleY([rule], { stroke: "currentColor", strokeDasharray: "5 4" }),
      Plot.ruleX(marks, { x: ([x]) => x, stroke: "#d55e00", strokeDasharray: "4 3" }),
      Plot.text(marks, { x: ([x]) => x, text: ([, words]) => words, frameAnchor: "bottom", textAnchor: "start", fontSize: 10, dx: 3, dy: -4 }),
      lines,
    ],
  });
  const about = chart.lines.map((line) => `${line.name}: ${line.points.slice(0, 60).map(([, y]) => report.significant(y, 3)).join(", ")} ${chart.y}`);
  return report.figure(chart.title, `${chart.title}: ${about.join("; ")}`, plot);
};

report.VERDICTS = { slower: ["#d55e00", "triangle"], faster: ["#0072b2", "star"], same: ["currentColor", "circle"], undecided: ["#999999", "cross"] };

/** Values with their intervals from left to right, a line each; ratios with the largest first, coloured by their verdict. */
report.dotChart = function (chart, width) {
  const values = chart.lines.map(({ name, path, place, points: [[, x, low, high]] }) => ({ name, path, place, x, low, high }));
  const isRatio = chart.lines.every((line) => line.path in report.VERDICTS);
  const dots = isRatio ? d3.sort(values, (one) => -one.x) : values;
  const [least, most] = d3.extent(dots.flatMap((one) => [one.low ?? one.x, one.high ?? one.x, ...(isRatio ? [1] : [])]));
  const color = (one) => report.VERDICTS[one.path]?.[0] ?? report.color(one.path);
  const text = (one) => `${report.significant(one.x, 3)}${one.low === null ? "" : ` (${report.significant(one.low, 3)} to ${report.significant(one.high, 3)})`}`;
  const plot = report.plot({
    width,
    height: 60 + 16 * dots.length,
    marginLeft: Math.min(330, 0.5 * width, 20 + 6 * d3.max(dots, (one) => one.name.length)),
    marginRight: 60,
    marginTop: 30,
    x: { type: "log", domain: [least / 1.1, most * 1.1], label: chart.y, axis: "top", grid: true, ticks: 4, tickFormat: (value) => `${report.significant(value, 2)}${isRatio ? "×" : ""}` },
    y: { domain: dots.map((one) => one.name), label: null },
    symbol: { type: "identity" },
    marks: [
      isRatio ? Plot.ruleX([1], { stroke: "currentColor" }) : null,
      Plot.ruleY(dots.filter((one) => one.low !== null), { y: "name", x1: "low", x2: "high", stroke: color, strokeWidth: 1.5 }),
      Plot.dot(dots, { y: "name", x: "x", symbol: (one) => report.VERDICTS[one.path]?.[1] ?? report.symbol(one.path), fill: color, r: 3.5, title: (one) => `${one.name}: ${text(one)}${isRatio ? `, ${one.path}` : ""}` }),
      isRatio ? null : Plot.text(dots, { y: "name", x: (one) => one.high ?? one.x, dx: 6, textAnchor: "start", text: (one) => report.significant(one.x, 3) }),
    ],
  });
  return report.figure(chart.title, `${chart.title}: ${dots.map((one) => `${one.name} ${text(one)}`).join("; ")}`, plot);
};
