"use strict";
/* The details of a row, in a dialog. */

/** Open the details of a row. */
report.open = async function (index) {
  const { block } = await report.data("views");
  const found = (await report.data(`details-${Math.floor(index / block)}`))[index % block];
  const dialog = document.getElementById("details");
  report.cell = report.of(index, "cell");
  dialog.replaceChildren(report.detailsOf(index, found, () => dialog.close()));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  const place = dialog.querySelector(".generations");
  if (place) place.replaceWith(report.generations(found.latency, dialog));
  report.toAddress();
};

report.detailsOf = function (index, found, close) {
  const { h } = report;
  const ending = report.of(index, "ending");
  return h(
    "article",
    {},
    h("header", {}, h("h2", {}, report.of(index, "cell")), h("button", { type: "button", onclick: close, "aria-label": "Close" }, "Close")),
    h("p", {}, h("span", { class: `tag ${report.endingClass(ending)}` }, ending), " ", report.table.endings[ending], "."),
    report.column.has("run") && h("p", { class: "note" }, `Measured ${report.of(index, "measured")} on ${report.of(index, "machine")}, run ${report.of(index, "run")}.`),
    report.tabs.some((one) => one.name === "history" && one.has_data) && h("p", {}, h("a", { href: `#history?text=${encodeURIComponent(report.of(index, "cell"))}` }, "History of this cell")),
    report.failureOf(index, found),
    report.latencyOf(index, found),
    report.section("Verification", report.verificationOf(found.verification)),
    report.section("Stages", report.stagesOf(found)),
    report.section("Program", report.programOf(index, found)),
    report.section("Commands", report.commandsOf(found)),
    found.log_end && report.section("End of the log", h("p", { class: "path" }, found.outcome.log), h("pre", { tabindex: 0 }, found.log_end)),
    report.section("Model and versions", report.list([
      ["file", found.model.file],
      ["options", report.options(found.reference.resolved ?? found.model.options)],
      ["inputs from", found.reference.inputs_from],
      ["device", [found.run.device_name, found.run.threads && `${found.run.threads} threads`].filter(Boolean).join(", ")],
      ["versions", report.options(found.versions)],
      ["code", found.outcome.fingerprint + (found.outcome.stale ? " (older than the checkout's)" : "")],
    ])),
  );
};

report.section = (title, ...content) =>
  content.some(Boolean) && report.h("section", {}, report.h("h3", {}, title), ...content);

/** Names and values, without those that are empty. */
report.list = function (pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
  return known.length
    ? report.h("dl", {}, known.map(([name, value]) => report.h("div", {}, report.h("dt", {}, name), report.h("dd", {}, value))))
    : null;
};

report.options = (found) =>
  Object.entries(found ?? {})
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");

report.failureOf = function (index, found) {
  const { h } = report;
  const ended = found.outcome;
  const { first, name, tried } = found.remedy ?? {};
  const parts = [];
  if (ended.status !== "ok") {
    parts.push(h("p", {}, h("strong", {}, `${ended.status} at ${ended.stage}: ${ended.reason}`)), h("pre", {}, ended.detail));
    if (ended.blocked_by) parts.push(h("p", {}, "Blocked by ", ended.blocked_by, "."));
  }
  if (first) {
    parts.push(
      h("p", {}, h("strong", {}, `${name ? "Compiled by the remedy " + name : "No remedy worked"}`), ". What was asked for failed: ", first.reason),
      h("pre", {}, first.detail),
      h("p", {}, "Tried: ", (tried ?? []).map((one) => `${one.remedy} (${one.status === "ok" ? "worked" : one.reason}, ${report.seconds(one.seconds)})`).join(", ")),
    );
  }
  return parts.length ? report.section(ended.status === "ok" || ended.status === "unavailable" ? "Outcome" : "Failure", ...parts) : null;
};

report.latencyOf = function (index, found) {
  const { h } = report;
  if (!found.latency) return null;
  const of = (name) => report.of(index, name);
  const { group, anchor, calls, foreign, steal } = found.latency;
  const percentiles = ["p50", "p90", "p99"].filter((name) => of(`${name}_ms`) !== null);
  const ends = [of("control_low"), of("control_high")].map((end) => end?.toFixed(3)).join(" to ");
  return report.section(
    "Latency",
    report.list([
      ["latency, 99 % interval", h("strong", {}, report.latency(index))],
      ["doubt", of("doubt")],
      ["speed-up over eager", report.speedup(index, "eager")],
      ["speed-up over inductor", report.speedup(index, "inductor")],
      ["verdict", of("verdict") && `${of("verdict")}, against the faster of both`],
      ["control", of("control_low") !== null && `two processes of one program: ratio ${of("control_ratio").toFixed(3)} (${ends})`],
      ["percentiles of all calls", percentiles.map((name) => `${name} ${report.ms(of(`${name}_ms`))} ms`).join(", ")],
      ["timed", `${calls.toLocaleString("en")} calls in ${of("turns")} turns of ${of("generations")} generations`],
      ["group", group],
      ["anchor", anchor],
      ["others", `other processes used ${report.percent(foreign)} of the cores, other guests ${report.percent(steal)}`],
      ["tokens per s", of("tokens_per_s") && report.significant(of("tokens_per_s"), 3)],
      ["load", found.run.load_ms && `${report.ms(found.run.load_ms)} ms`],
      ["first call", found.run.first_call_ms && `${report.ms(found.run.first_call_ms)} ms`],
    ]),
    h("div", { class: "generations" }),
  );
};

/** The latency in each generation as a dot, and that of the anchor, to the same scale. */
report.generations = function (latency, element) {
  const median = d3.median(latency.values_ms);
  const factor = median / d3.median(latency.anchor_ms);
  const dots = latency.values_ms.map((value, place) => ({ value, place: place + 1, symbol: "circle" }));
  dots.push(...latency.anchor_ms.map((value, place) => ({ value: value * factor, place: place + 1, symbol: "times" })));
  const chart = report.plot({
    width: report.width(element, 640),
    height: 130,
    marginLeft: 52,
    x: { label: "generation", ticks: Math.min(10, latency.values_ms.length), tickFormat: "d" },
    y: { label: "ms", nice: true, grid: true, ticks: 4 },
    symbol: { type: "identity" },
    marks: [
      Plot.ruleY([median], { stroke: "currentColor", strokeOpacity: 0.5, strokeDasharray: "4 3" }),
      Plot.dot(dots, { x: "place", y: "value", symbol: "symbol", stroke: "var(--accent)", title: (one) => `${report.ms(one.value)} ms` }),
    ],
  });
  const anchor = latency.anchor_ms.length ? ` Crosses: the anchor, as a multiple of its own median: what moves both is in no ratio.` : "";
  return report.figure(`The latency of each process (generation); dashed: median.${anchor}`, "Latency in each generation", chart);
};

report.verificationOf = (found) =>
  report.list([
    ["code", found.code],
    ["detail", found.detail],
    ["largest difference", found.max_abs_error !== undefined && report.significant(found.max_abs_error, 3)],
    ["RMSE against float64", found.rmse_vs_fp64 !== undefined && report.significant(found.rmse_vs_fp64, 3)],
    ["RMSE of eager itself", found.golden_rmse_vs_fp64 !== undefined && report.significant(found.golden_rmse_vs_fp64, 3)],
    ["tolerance", found.noise ? `noise ${found.noise}` : found.tol],
    ["greedy tokens", found.greedy_expected && `${found.greedy_tokens} of ${found.greedy_expected}`],
  ].map(([name, value]) => [name, value === false ? null : value]));

report.stagesOf = function (found) {
  const { h } = report;
  if (!found.stages.length) return null;
  const head = ["stage", "status", "time", "peak memory"].map((name, place) => h("th", { scope: "col", class: place > 1 && "number" }, name));
  const body = found.stages.map((one) =>
    h("tr", {}, h("th", { scope: "row" }, one.stage), h("td", {}, one.status), h("td", { class: "number" }, report.seconds(one.seconds)), h("td", { class: "number" }, one.mb ? report.mebibytes(one.mb) : "–")),
  );
  return h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
};

report.programOf = function (index, found) {
  const exported = found.export ?? {};
  const compiled = found.compile ?? {};
  return report.list([
    ["weights", report.of(index, "weights_bytes") && report.bytes(report.of(index, "weights_bytes"))],
    ["program", exported.program_bytes && report.bytes(exported.program_bytes)],
    ["module", compiled.vmfb_bytes && report.bytes(compiled.vmfb_bytes)],
    ["dispatches", compiled.dispatch_count],
    ["intermediate results, packed weights", compiled.transient_bytes && report.bytes(compiled.transient_bytes)],
    ["constants", compiled.constant_bytes && report.bytes(compiled.constant_bytes)],
    ["export", exported.export_s && report.seconds(exported.export_s)],
    ["iree-compile", compiled.compile_s && `${report.seconds(compiled.compile_s)}, ${report.mebibytes(compiled.max_rss_mb)}`],
    ["memory of the timed process", found.run.max_rss_mb && report.mebibytes(found.run.max_rss_mb)],
    ["device memory", found.run.device_memory_mb && report.mebibytes(found.run.device_memory_mb)],
    ["rewrites", (exported.rewrites ?? []).join(", ")],
    ["backend", found.experiment.backend && [found.experiment.backend, found.experiment.arch, found.experiment.opt_level].filter(Boolean).join(", ")],
    ["flags", (found.experiment.flags ?? []).join(" ")],
  ]);
};

report.commandsOf = function (found) {
  const { h } = report;
  const commands = [
    ["Shortest command that shows the failure", found.minimal !== found.outcome.command && found.minimal],
    [`Stage ${found.outcome.stage}`, found.outcome.command],
    ["Timing", found.run.command],
  ];
  return commands.filter(([, text]) => text).map(([name, text]) => h("div", {}, h("h4", {}, name), report.command(text)));
};
