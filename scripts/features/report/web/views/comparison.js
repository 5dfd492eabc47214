"use strict";
/* Comparison: the result in sentences, the change of each latency with its interval, and all tables. */

report.views.comparison = {
  hasRows: false,
  WORDS: { slower: "slower", faster: "faster", same: "no change above the threshold", undecided: "undecided" },
  COLORS: { slower: "#d55e00", faster: "#0072b2", same: "currentColor", undecided: "#999999" },
  SYMBOLS: { slower: "triangle", faster: "star", same: "circle", undecided: "cross" },

  draw(element, data) {
    const { h } = report;
    element.append(
      h("h2", {}, `${data.before} → ${data.after}`),
      h("ul", {}, data.summary.map((line) => h("li", {}, line))),
    );
    if (data.latencies.length) element.append(h("div", { class: "scroll" }, this.chart(element, data.latencies)));
    element.append(...data.tables.map(report.textTable));
  },

  /** A line per cell, the largest slow-down first. */
  chart(element, latencies) {
    const found = d3.sort(latencies, (one) => -one.ratio);
    const verdicts = Object.keys(this.WORDS).filter((name) => found.some((one) => one.verdict === name));
    const longest = d3.max(found, (one) => one.cell.length);
    const chart = report.plot({
      width: Math.max(700, report.width(element, 1000)),
      height: 60 + 15 * found.length,
      marginLeft: Math.min(330, 20 + 6 * longest),
      marginTop: 30,
      x: { type: "log", label: "latency after / before", axis: "top", grid: true, tickFormat: (value) => `${value}×` },
      y: { domain: found.map((one) => one.cell), label: null },
      color: { domain: verdicts, range: verdicts.map((name) => this.COLORS[name]) },
      symbol: { domain: verdicts, range: verdicts.map((name) => this.SYMBOLS[name]) },
      marks: [
        Plot.ruleX([1], { stroke: "currentColor" }),
        Plot.ruleY(found, { y: "cell", x1: "low", x2: "high", stroke: "verdict" }),
        Plot.dot(found, { y: "cell", x: "ratio", symbol: "verdict", fill: "verdict", r: 3.5, title: (one) => `${one.cell}: ${one.ratio.toFixed(3)} (${one.low.toFixed(3)} to ${one.high.toFixed(3)}), ${this.WORDS[one.verdict]}, ${one.basis}` }),
      ],
    });
    const about = verdicts.map((name) => `${found.filter((one) => one.verdict === name).length} ${this.WORDS[name]}`).join(", ");
    return report.figure(`Latency after / before: ${about}`, about, chart);
  },
};
