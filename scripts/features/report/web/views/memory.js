"use strict";
/* Resident memory by stage: peaks, and over time where it was recorded. */

report.views.memory = {
  hasRows: true,
  model: "",
  TITLES: { reference: "Reference (PyTorch)", export: "Export (PyTorch → MLIR)", compile: "Compile (iree-compile)", verify: "Verification (IREE)", baseline: "Verification (baselines)", time: "Timing (all rows of a group)" },

  draw(element, data, indices) {
    const { h } = report;
    const chosen = new Set(indices);
    const stages = data.stages.filter((one) => one.rows.some((row) => chosen.has(row)));
    const models = [...new Set(stages.map((one) => one.model))];
    if (!models.length) {
      element.append(h("p", {}, "None of these rows has a recorded stage."));
      return;
    }
    const model = models.includes(this.model) ? this.model : models[0];
    const choose = (event) => {
      this.model = event.target.value;
      element.replaceChildren();
      this.draw(element, data, indices);
    };
    element.append(
      h("p", { class: "choice" }, h("label", {}, "Model ", h("select", { onchange: choose }, models.map((name) => h("option", { value: name, selected: name === model }, name))))),
      h("p", { class: "note" }, "Resident memory of all processes of a stage together, sampled ten times a second. A dot and a number mark the peak. Vertical lines: what a verification does from there on."),
    );
    const of = stages.filter((one) => one.model === model);
    for (const stage of data.order) {
      const found = of.filter((one) => one.stage === stage);
      if (!found.length) continue;
      const section = h("section", {}, h("h2", {}, this.TITLES[stage]));
      element.append(section);
      if (found.some((one) => one.series)) this.overTime(section, found);
      this.peaks(section, found, indices);
      if (stage === "compile") this.planned(section, data.planned.filter((one) => one.model === model && chosen.has(one.row)));
    }
  },

  /** The name of a stage's cell without the model. */
  name: (one) => one.cell.split("/").slice(1).join(" on ").replace(" on eval", "") || one.cell,

  path: (one) => one.cell.split("/")[1] ?? "eager",

  /** A series whose times count from its first sample: before that, the stage had no process. */
  fromFirst: ({ seconds, mb, marks }) => ({ mb, seconds: seconds.map((at) => at - seconds[0]), marks: marks.map(([at, text]) => [at - seconds[0], text]) }),

  overTime(element, found) {
    const lines = found.filter((one) => one.series).map((one) => ({ ...one, series: this.fromFirst(one.series) }));
    const points = lines.flatMap((one) => one.series.seconds.map((seconds, place) => ({ seconds, mb: one.series.mb[place], name: this.name(one), path: this.path(one) })));
    const peaks = lines.map((one) => d3.greatest(one.series.mb.map((mb, place) => ({ mb, seconds: one.series.seconds[place], name: this.name(one), path: this.path(one) })), (point) => point.mb));
    const marks = lines.flatMap((one) => one.series.marks.map(([seconds, text]) => ({ seconds, text, path: this.path(one) })));
    const names = d3.rollups(marks, (group) => d3.min(group, (one) => one.seconds), (one) => one.text).map(([text, seconds]) => ({ text, seconds }));
    const width = report.width(element, 900);
    element.append(
      ...(lines.length > 1 ? [report.legend([...new Set(lines.map(this.path))])] : []),
      report.figure(
        null,
        peaks.map((one) => `${one.name}: peak ${report.mebibytes(one.mb)}`).join("; "),
        report.plot({
          width,
          height: 240,
          marginLeft: 56,
          marginRight: 70,
          x: { label: "s since its process started" },
          y: { label: "MiB", grid: true, zero: true, nice: true },
          marks: [
            Plot.lineY(points, { x: "seconds", y: "mb", z: "name", stroke: (one) => report.color(one.path), strokeWidth: 1.5 }),
            Plot.dot(peaks, { x: "seconds", y: "mb", fill: (one) => report.color(one.path), r: 3.5, title: (one) => `${one.name}: ${report.mebibytes(one.mb)}` }),
            // Peaks of runtimes are often close to each other.
            d3.sort(peaks, (one) => -one.mb).map((one, place) => Plot.text([one], { x: "seconds", y: "mb", text: () => report.mebibytes(one.mb), textAnchor: "start", dx: 6, dy: 12 * (place % 4) - 10 })),
            Plot.tickX(marks, { x: "seconds", stroke: (one) => report.color(one.path), strokeOpacity: 0.4 }),
            Plot.text(names, { x: "seconds", frameAnchor: "bottom", text: "text", textAnchor: "start", fontSize: 10, dx: 3, dy: -4 }),
          ],
        }),
      ),
    );
  },

  /** What programs need memory for, as bars of parts. */
  planned(element, found) {
    const { h } = report;
    if (!found.length) return;
    const parts = found.flatMap((one) => Object.entries(one.bytes).map(([purpose, bytes]) => ({ name: this.name({ cell: report.of(one.row, "cell") }), purpose, mb: (bytes ?? 0) / 2 ** 20 })));
    const purposes = Object.keys(found[0].bytes);
    const color = (purpose) => report.COLORS[purposes.indexOf(purpose)];
    const width = report.width(element, 900);
    element.append(
      h("p", { class: "legend" }, purposes.map((purpose) => h("span", {}, h("i", { style: { "background-color": color(purpose) } }), purpose))),
      report.figure(
        "What the programs need memory for, as planned by the compiler.",
        parts.map((one) => `${one.name}: ${one.purpose} ${report.mebibytes(one.mb)}`).join("; "),
        report.plot({
          width,
          height: 40 + 22 * found.length,
          marginLeft: Math.min(0.45 * width, 12 + 6.2 * d3.max(parts, (one) => one.name.length)),
          x: { label: "MiB", grid: true },
          y: { label: null, domain: parts.map((one) => one.name) },
          marks: [Plot.barX(parts, { x: "mb", y: "name", fill: (one) => color(one.purpose), z: "purpose", order: purposes, title: (one) => `${one.name}, ${one.purpose}: ${report.mebibytes(one.mb)}` })],
        }),
      ),
    );
  },

  peaks(element, found, indices) {
    const { h } = report;
    const most = d3.max(found, (one) => one.mb) || 1;
    const chosen = new Set(indices);
    const onDevice = (one) => (["verify", "baseline"].includes(one.stage) ? one.rows.map((row) => report.of(row, "device_memory_mb")).find((mb) => mb !== null) : undefined);
    const hasDevice = found.some((one) => onDevice(one) !== undefined);
    const head = ["", "status", "time", "peak memory", ...(hasDevice ? ["on the device"] : [])];
    const rows = found.map((one) => {
      const index = one.rows.find((row) => chosen.has(row));
      return h("tr", {}, h("th", { scope: "row" }, report.opener(index, this.name(one))), h("td", {}, one.status), h("td", { class: "number" }, report.seconds(one.seconds)), h("td", { class: "number share", style: { "--share": one.mb / most } }, report.mebibytes(one.mb)), hasDevice && h("td", { class: "number" }, report.mebibytes(onDevice(one))));
    });
    element.append(h("div", { class: "scroll" }, h("table", { class: "rows peaks" }, h("thead", {}, h("tr", {}, head.map((name, place) => h("th", { scope: "col", class: place > 1 && "number" }, name)))), h("tbody", {}, rows))));
  },
};
