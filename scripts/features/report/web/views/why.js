"use strict";
/* Where the time of a call goes: what to look at first, by module, and by dispatch. */

report.views.why = {
  hasRows: false,
  cell: "",

  draw(element, data) {
    const { h } = report;
    const found = data.cells.find((one) => one.cell === this.cell) ?? data.cells[0];
    const choose = (event) => {
      this.cell = event.target.value;
      element.replaceChildren();
      this.draw(element, data);
    };
    const runtimes = Object.keys(found.call_ms).sort((one, other) => (one === "iree") - (other === "iree"));
    element.append(
      h("p", { class: "choice" }, h("label", {}, "Cell ", h("select", { onchange: choose }, data.cells.map((one) => h("option", { value: one.cell, selected: one === found }, one.cell))))),
      h("p", {}, "ms per call: ", [...runtimes.map((name) => [this.name(name), found.call_ms[name]]), ["limit of the machine", found.limit_ms]].filter(([, ms]) => ms).map(([name, ms]) => `${name} ${report.ms(ms)}`).join(", "), `; ${found.threads} threads.`),
      found.doubts.length
        ? h("section", {}, h("h2", {}, "In doubt, so nothing is recommended"), h("ul", {}, found.doubts.map((text) => h("li", {}, text))))
        : h("section", {}, h("h2", {}, "Look first at"), h("ol", {}, found.first.map((text) => h("li", {}, text)))),
    );
    const modules = h("section", {}, h("h2", {}, "By module"));
    element.append(modules);
    this.modules(modules, found, runtimes);
    element.append(this.dispatches(found));
  },

  name: (runtime) => (runtime === "iree" ? "IREE" : runtime),

  modules(element, found, runtimes) {
    const { h } = report;
    const total = d3.sum(found.parts, (one) => one.ms.iree ?? 0) || 1;
    const parts = found.parts.filter((one) => d3.max(Object.values(one.ms)) / total >= 0.01).slice(0, 25);
    const bars = parts.flatMap((one) => runtimes.map((runtime) => ({ part: one.name, runtime: this.name(runtime), ms: one.ms[runtime] ?? 0 })));
    const limits = parts.filter((one) => one.limit_ms);
    const colours = { IREE: "#0072b2", eager: "var(--eager)", inductor: "#e69f00" };
    const names = runtimes.map(this.name);
    const width = report.width(element, 900);
    const longest = d3.max(parts, (one) => one.name.length) ?? 0;
    element.append(
      h("p", { class: "legend" }, names.map((name) => h("span", {}, h("i", { style: { "background-color": colours[name] } }), name)), limits.length > 0 && h("span", {}, "│ limit of the machine")),
      report.figure(
        "ms per call in each module.",
        "Time by module and runtime",
        report.plot({
          width,
          height: 40 + parts.length * (8 + 11 * names.length),
          marginLeft: Math.min(0.45 * width, 12 + 6.2 * longest),
          marginRight: 60,
          x: { label: "ms", grid: true },
          y: { axis: null, domain: names },
          fy: { label: null, domain: parts.map((one) => one.name), padding: 0.2 },
          marks: [
            Plot.axisFy({ anchor: "left", label: null, text: (name) => (name.length * 6.2 > 0.45 * width ? `…${name.slice(-Math.floor((0.45 * width) / 6.6))}` : name) }),
            Plot.barX(bars, { x: "ms", y: "runtime", fy: "part", fill: (one) => colours[one.runtime], fillOpacity: 0.8, title: (one) => `${one.part}, ${one.runtime}: ${report.ms(one.ms)} ms` }),
            Plot.tickX(limits, { x: "limit_ms", fy: "name", stroke: "currentColor", strokeWidth: 2 }),
            Plot.text(bars.filter((one) => one.ms), { x: "ms", y: "runtime", fy: "part", text: (one) => report.ms(one.ms), textAnchor: "start", dx: 3, fontSize: 9 }),
          ],
        }),
      ),
    );
  },

  dispatches(found) {
    const { h } = report;
    const head = [["share", 1], ["ms", 1], ["calls", 1], ["workgroups", 1], ["busy", 1], ["dispatch"], ["operators"], ["modules"]];
    const rows = found.kernels.filter((one) => one.share >= 0.005).map((one) =>
      h("tr", {},
        h("td", { class: "number share", style: { "--share": one.share } }, report.percent(one.share)),
        [report.ms(one.ms), one.calls, one.tiles, one.busy === null ? "–" : one.busy.toFixed(1)].map((text) => h("td", { class: "number" }, text)),
        h("td", {}, h("code", {}, one.function)),
        h("td", { class: "wrapped" }, one.operators.join(", ")),
        h("td", { class: "wrapped" }, one.parts.join(", ")),
      ));
    return h("section", {}, h("h2", {}, "By dispatch"), h("div", { class: "scroll" }, h("table", { class: "rows" }, h("thead", {}, h("tr", {}, head.map(([name, number]) => h("th", { scope: "col", class: number && "number" }, name)))), h("tbody", {}, rows))));
  },
};
