"use strict";
/* Two runs, compared in the browser: what `vmfbench compare` says of them (comparing.py, latencies.py, formats.py). A test compares both. */

report.views.pairs = {
  hasRows: false,
  parameters: ["before", "after"],

  async draw(element, data) {
    const { h } = report;
    const [before, after] = this.chosen(data);
    const result = h("div", {}, h("p", {}, "Loading …"));
    if (!data.chosen) element.append(this.selection(data, before, after));
    element.append(result);
    element.querySelector(`select[name=${this.focused}]`)?.focus();
    if (!before || !after) return result.replaceChildren(h("p", {}, "Select two runs."));
    const runs = [before, after].map((id) => data.runs.find((each) => each.id === id));
    if (runs.includes(undefined)) return result.replaceChildren(h("p", {}, "This site has no such run; it may be each of an older site."));
    try {
      const compared = this.compare(data, ...(await Promise.all(runs.map((each) => report.run(each.id)))));
      result.replaceChildren();
      report.views.comparison.draw(result, { before: runs[0].words, after: runs[1].words, ...compared });
    } catch (error) {
      result.replaceChildren(h("p", { role: "alert" }, `The runs could not be compared: ${error}`));
      console.error(error);
    }
  },

  /** The ids of the runs before and after: those of the page, of the address, or else the last run and the run before it on its machine. */
  chosen(data) {
    if (data.chosen) return data.chosen;
    const { before, after } = report.extra;
    const last = data.runs.find((each) => each.id === (after ?? data.runs.at(-1).id));
    return [before ?? last?.before, after ?? last?.id];
  },

  selection(data, ...chosen) {
    const { h } = report;
    const lists = ["before", "after"].map((name, place) => {
      const change = (event) => {
        report.extra = { before: chosen[0], after: chosen[1], [name]: event.target.value };
        this.focused = name; // the page is drawn again
        report.changed();
      };
      const none = !data.runs.some((each) => each.id === chosen[place]) && h("option", { selected: true, disabled: true }, "–");
      const options = data.runs.toReversed().map((each) => h("option", { value: each.id, selected: each.id === chosen[place] }, `${each.words}: ${each.about}`));
      return h("label", {}, name === "before" ? "Before" : "After", h("select", { name, onchange: change }, none, options));
    });
    return h("p", { class: "choice runs" }, lists);
  },

  /** Sentences, tables and latencies, as report.views.comparison shows them. */
  compare(data, before, after) {
    const places = new Map(before.cells.map((cell, place) => [cell, place]));
    const pairs = after.cells.map((cell, now) => ({ cell, was: places.get(cell), now })).filter((pair) => pair.was !== undefined);
    const all = { data, before, after };
    const outcomes = this.outcomes(all, pairs);
    const estimated = pairs.map((pair) => this.estimate(all, pair)).filter(Boolean);
    const estimates = estimated.filter((each) => !each.why);
    const notCompared = estimated.filter((each) => each.why);
    const options = { ...data, rate: data.settings.rate, threshold: data.settings.latency ?? data.matters };
    const decisions = report.statistics.decide(estimates.map((each) => each.difference), options);
    const latencies = estimates.map((each, at) => ({ cell: each.cell, basis: each.basis, before_ms: each.beforeMs, after_ms: each.afterMs, ...decisions[at] }));
    const compared = {
      cells: pairs.length,
      outcomes,
      latencies,
      notCompared,
      versions: this.versions(all, pairs),
      amounts: this.amounts(all, pairs),
      means: this.means(all, estimates),
    };
    const isReal = (each) => each.verdict === "slower" || each.verdict === "faster";
    const charted = d3.sort(latencies, (each, other) => isReal(other) - isReal(each) || Math.abs(Math.log(other.ratio)) - Math.abs(Math.log(each.ratio)));
    return { summary: this.summary(data, compared), tables: this.tables(data, compared), latencies: charted.slice(0, data.cells) };
  },

  valueAt: (column, place) => column.values[column.at[place]],

  outcomes({ data, before, after }, pairs) {
    const compared = pairs.map(({ cell, was, now }) => {
      const [old, fresh] = [this.valueAt(before.ending, was), this.valueAt(after.ending, now)];
      const kind = this.kind(old, fresh);
      const [, , , detail] = kind === "fixed" || kind === "newly right" ? old : fresh;
      return { cell, kind, before: old[2], after: fresh[2], detail };
    });
    const order = Object.keys(data.kinds);
    return d3.sort(compared.filter((each) => each.kind), (each) => order.indexOf(each.kind));
  },

  /** The kind of a change between two endings [state, failure]; "" if it is none. */
  kind([was, oldFailure], [now, newFailure]) {
    const [wrong, failed] = ["wrong results", "failed"];
    if (was === now) return oldFailure === newFailure ? "" : "other reason";
    if (now === wrong) return "newly wrong";
    if (was === wrong) return { ok: "newly right", [failed]: "other reason" }[now] ?? "device";
    if (was !== failed && now !== failed) return "device";
    return now === failed ? "broken" : "fixed";
  },

  /** What differs between two rows that would have to be the same, or "". `but`: names of what may differ. */
  difference({ before, after }, { was, now }, but = []) {
    for (const [name, column] of Object.entries(after.conditions)) {
      const old = before.conditions[name] && this.valueAt(before.conditions[name], was);
      const fresh = this.valueAt(column, now);
      if (but.includes(name) || (old ?? null) === null || fresh === null || JSON.stringify(old) === JSON.stringify(fresh)) continue;
      const [olds, news] = [old, fresh].map((value) => new Map(Array.isArray(value) ? value : [["", value]]));
      const parts = [...new Set([...olds.keys(), ...news.keys()])].filter((part) => olds.get(part) !== news.get(part));
      return `${name}: ${parts.map((part) => `${part} ${olds.get(part) ?? "None"} before, ${news.get(part) ?? "None"} after`.trim()).join(", ")}`;
    }
    return "";
  },

  /** The change of the latency of a cell, or why it is not compared; null if not both rows have a latency. */
  estimate(all, pair) {
    const { data, before, after } = all;
    const [old, fresh] = [before.latency[pair.was], after.latency[pair.now]];
    if (!old || !fresh) return null;
    const { cell, now } = pair;
    const not = (why) => ({ cell, why });
    const why = this.difference(all, pair, data.of_model) || this.difference(all, pair);
    if (why) return not(why);
    const [beforeMs, isAnchor, oldCount, oldLogs, oldScale, oldDf] = old;
    const [afterMs, , newCount, newLogs, newScale, newDf] = fresh;
    const groups = [this.valueAt(before.group, pair.was), this.valueAt(after.group, now)];
    const anchors = [this.valueAt(before.anchor, pair.was), this.valueAt(after.anchor, now)];
    const basis = groups[0] === groups[1] ? "in turns" : "by anchor";
    if (basis === "by anchor") {
      const [was, is] = anchors.map((anchor) => anchor || "none");
      if (was !== is || was === "none") return not(`anchor: ${was} before, ${is} after`);
      if (isAnchor) return not(data.is_anchor);
    }
    const shared = { cell, now, basis, beforeMs, afterMs };
    if (basis === "in turns") {
      // The same measurement is in both runs.
      const logs = d3.zip(oldLogs, newLogs).map(([was, is]) => is - was);
      return { ...shared, difference: report.statistics.ofLogs(logs, data.least) ?? { value: 0, scale: 0, df: 1 }, terms: [[groups[0], logs]] };
    }
    if (Math.min(oldCount, newCount) < data.least) return not(`${oldCount} generations before, ${newCount} after; an interval needs ${data.least}`);
    const difference = report.statistics.sum([
      { value: -d3.mean(oldLogs), scale: oldScale, df: oldDf },
      { value: d3.mean(newLogs), scale: newScale, df: newDf },
    ]);
    return { ...shared, difference, terms: [[groups[0], oldLogs.map((log) => -log)], [groups[1], newLogs]] };
  },

  /** The versions and options that differ, the most frequent change first. */
  versions({ before, after }, pairs) {
    const counts = new Map();
    for (const { was, now } of pairs) {
      const [old, fresh] = [[before, was], [after, now]].map(([run, place]) => new Map([...this.valueAt(run.versions, place), ...this.valueAt(run.options, place)]));
      for (const name of new Set([...old.keys(), ...fresh.keys()])) {
        const [each, other] = [old.get(name) ?? null, fresh.get(name) ?? null];
        // Older records have no version of Python.
        if (each === other || (name === "python" && !(each && other))) continue;
        const key = JSON.stringify([name, each || "none", other || "none"]);
        counts.set(key, (counts.get(key) ?? 0) + 1);
      }
    }
    return d3.sort(counts, ([, count]) => -count).map(([key, count]) => [...JSON.parse(key), String(count)]);
  },

  /** The values that have changed by more than their thresholds. */
  amounts(all, pairs) {
    const { data, before, after } = all;
    const same = pairs.filter((pair) => !this.difference(all, pair, data.of_model));
    return Object.entries(data.amounts).flatMap(([key, [words, unit, least]]) => {
      const threshold = data.settings[key];
      if (threshold === null) return [];
      return same.flatMap(({ cell, was, now }) => {
        const [old, fresh] = [before.amounts[key][was], after.amounts[key][now]];
        if (old === null || fresh === null || old === fresh) return [];
        const isSmall = old && 1 / threshold <= fresh / old && fresh / old <= threshold;
        if (Math.abs(fresh - old) < least || isSmall) return [];
        const factor = old ? `${(fresh / old).toFixed(2)} × ` : "";
        const [each, other] = [old, fresh].map((value) => `${value >= 1000 ? Math.round(value).toLocaleString("en") : this.general(value, 4)} ${unit}`.trim());
        return [{ cell, words, isWorse: fresh > old, ratio: `${factor}(${each} before, ${other} after)` }];
      });
    });
  },

  /** Geometric means: over all cells, and by group. Cells of the same turns share errors, so their mean is computed by generation. */
  means({ data, after }, estimates) {
    const groups = new Map();
    for (const each of estimates) {
      for (const group of [["all", ""], ...this.valueAt(after.groups, each.now)]) {
        const key = JSON.stringify(group);
        groups.set(key, [...(groups.get(key) ?? []), each]);
      }
    }
    const means = [...groups].map(([key, members]) => {
      const terms = d3.rollups(members.flatMap((each) => each.terms), (rows) => d3.transpose(rows.map(([, logs]) => logs)).map((logs) => d3.fsum(logs) / members.length), ([turns]) => turns);
      const sum = report.statistics.sum(terms.map(([, logs]) => report.statistics.ofLogs(logs, data.least) ?? { value: 0, scale: 0, df: 1 }));
      const [by, name] = JSON.parse(key);
      return { by, name, cells: members.length, ...report.statistics.interval(sum, data.confidence) };
    });
    const order = ["all", "path", "target", "suite"];
    return d3.sort(means, (mean) => order.indexOf(mean.by));
  },

  ratio: ({ ratio, low, high }) => `${report.isKnown({ low, high }) ? ratio.toFixed(3) : "unknown"} (${low.toFixed(3)} to ${high.toFixed(3)})`,

  /** A number with so many significant digits, without zeros at its end, as Python's format `g`. */
  general(value, digits) {
    const [mantissa, power] = value.toExponential(digits - 1).split("e").map(Number);
    if (value === 0 || (power >= -4 && power < digits)) return String(Number(value.toPrecision(digits)));
    return `${mantissa}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  },

  /** The result in a few sentences, the most important first. */
  summary(data, { cells, outcomes, latencies, notCompared, means, amounts }) {
    const kinds = Object.keys(data.kinds).map((kind) => [outcomes.filter((each) => each.kind === kind).length, kind]);
    const said = [[`${cells} cells in both: ${cells - outcomes.length} with the same outcome`, ...kinds.filter(([count]) => count).map((each) => each.join(" "))].join(", ")];
    const verdicts = ["slower", "faster", "same", "undecided"].map((verdict) => `${latencies.filter((each) => each.verdict === verdict).length} ${verdict}`);
    if (latencies.length) said.push(`${latencies.length} latencies compared: ${verdicts.join(", ")}`);
    if (notCompared.length) said.push(`${notCompared.length} latencies not compared`);
    for (const mean of means.filter((each) => each.by === "all")) said.push(`geometric mean of the ratios after / before: ${this.ratio(mean)}`);
    const { settings } = data;
    const alarms = [
      ...outcomes.filter((each) => settings.outcomes.includes(each.kind)).map((each) => [each.cell, `${each.kind} (${data.kinds[each.kind]}): ${each.before || "–"} → ${each.after || "–"}${each.detail && `: ${each.detail}`}`]),
      ...latencies.filter((each) => each.verdict === "slower" && settings.latency !== null && each.ratio >= settings.latency).map((each) => [each.cell, `slower: ${this.ratio(each)}`]),
      ...amounts.filter((each) => each.isWorse).map((each) => [each.cell, `${each.words}: ${each.ratio}`]),
    ];
    if (!alarms.length) return [...said, "no change for the worse"];
    return [...said, `changes for the worse: ${alarms.length}`, ...alarms.slice(0, data.shown).map((each) => each.join(": "))];
  },

  /** The tables that have rows. */
  tables(data, { outcomes, latencies, notCompared, versions, amounts, means }) {
    const timed = (each) => [each.verdict, each.cell, this.milliseconds(each.before_ms), this.milliseconds(each.after_ms), this.ratio(each), this.general(each.q, 2), each.smallest.toFixed(3), each.basis];
    const real = d3.sort(latencies.filter((each) => each.verdict === "slower" || each.verdict === "faster"), (each) => -each.ratio);
    const undecided = d3.sort(latencies.filter((each) => each.verdict === "undecided"), (each) => -each.smallest);
    const rows = {
      "Versions and options": versions,
      Outcomes: outcomes.map((each) => [each.kind, each.cell, each.before, each.after, each.detail]),
      Latency: real.map(timed),
      "Compilation, memory, size and error": amounts.map((each) => [each.isWorse ? "worse" : "better", each.words, each.cell, each.ratio]),
      Means: means.map((each) => [`${each.by} ${each.name}`.trim(), String(each.cells), this.ratio(each)]),
      "Undecided latencies": undecided.slice(0, data.shown).map(timed),
      "Latencies not compared": this.byPath(notCompared.map((each) => [each.cell, each.why])),
    };
    return data.sections.filter((section) => rows[section.title]?.length).map((section) => ({ ...section, rows: rows[section.title] }));
  },

  /** A latency with three significant digits, and with all digits before the point. */
  milliseconds(value) {
    const digits = Math.min(100, Math.max(0, 2 - Math.floor(Math.log10(Number(value.toPrecision(3))))));
    return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  },

  /** Rows that begin with a cell. Those that differ in the model alone become a single row, such as `4 × * /eager/eval`. */
  byPath(rows) {
    const without = (cell) => cell.slice(cell.indexOf("/") + 1);
    return report
      .groups(rows, ([cell, ...rest]) => JSON.stringify([without(cell), ...rest]))
      .map(([, [row, ...others]]) => (others.length ? [`${others.length + 1} × */${without(row[0])}`, ...row.slice(1)] : row));
  },
};

/** The columns of a run (run_files.py). Its file is loaded once. */
report.run = function (id) {
  report.asked ??= new Map();
  if (!report.asked.has(id)) {
    const loading = new Promise(function (resolve, reject) {
      const failed = () => reject(new Error(`data/runs/${id}.js cannot be loaded`));
      const script = report.h("script", { src: `${report.root}data/runs/${id}.js`, onload: () => resolve(report.unpack(report.packedRuns.get(id))), onerror: failed });
      document.head.append(script);
    });
    report.asked.set(id, loading);
  }
  return report.asked.get(id);
};

/** Called by the file of a run. */
report.addRun = function (id, packed) {
  report.packedRuns ??= new Map();
  report.packedRuns.set(id, packed);
};
