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
  const place = dialog.querySelector(".repetitions");
  if (place) place.replaceWith(report.repetitions(found.latency, dialog));
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
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
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
  const reasons = found.latency.trust_reasons.join("; ");
  return report.section(
    "Latency",
    report.list([
      ["median, 95 % interval", h("strong", {}, report.latency(index))],
      ["trust", of("trust") + (reasons ? `: ${reasons}` : "")],
      ["speed-up over eager", report.speedup(index, "eager")],
      ["speed-up over inductor", report.speedup(index, "inductor")],
      ["no interval", found.latency.no_interval],
      ["repetitions", `${of("repetitions")}, each ${found.latency.iterations === 1 ? "one call" : `the mean of ${found.latency.iterations} calls`}`],
      ["busy threads", found.latency.cpu_per_real && report.significant(found.latency.cpu_per_real, 2)],
      ["machine speed", of("machine_speed") && report.significant(of("machine_speed"), 3)],
      ["tokens per s", of("tokens_per_s") && report.significant(of("tokens_per_s"), 3)],
      ["load", found.run.load_ms && `${report.ms(found.run.load_ms)} ms`],
      ["first call", found.run.first_call_ms && `${report.ms(found.run.first_call_ms)} ms`],
      ["timed by", found.run.timer],
    ]),
    h("div", { class: "repetitions" }),
  );
};

/** Every repetition as a dot, by round, with the median. */
report.repetitions = function (latency, element) {
  const dots = [];
  let at = 0;
  latency.rounds.forEach(function (round, number) {
    for (const value of latency.values_ms.slice(at, at + round.repetitions)) dots.push({ value, round: `round ${number + 1}`, place: dots.length + 1 });
    at += round.repetitions;
  });
  const chart = report.plot({
    width: report.width(element, 640),
    height: 130,
    marginLeft: 52,
    x: { label: "repetition", ticks: Math.min(10, dots.length), tickFormat: "d" },
    y: { label: "ms", nice: true, grid: true, ticks: 4 },
    marks: [
      Plot.ruleY([d3.median(dots, (one) => one.value)], { stroke: "currentColor", strokeOpacity: 0.5, strokeDasharray: "4 3" }),
      Plot.dot(dots, { x: "place", y: "value", symbol: (one) => (one.round === "round 1" ? "circle" : "triangle"), fill: "var(--accent)", title: (one) => `${one.round}: ${report.ms(one.value)} ms` }),
    ],
  });
  const about = latency.rounds.map((round, number) => `round ${number + 1}: ${round.repetitions} repetitions, others used ${report.percent(round.foreign + round.steal)} of the cores`);
  return report.figure(`All repetitions (circles: round 1, triangles: round 2; dashed: median). ${about.join("; ")}.`, "Latency of each repetition", chart);
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
