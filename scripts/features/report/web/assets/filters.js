"use strict";
/* The filters that all views of rows share. They are in the address of the page, so a link keeps them. */

report.FACETS = [
  ["model", "model"],
  ["suite", "suite"],
  ["path", "path"],
  ["on", "target"],
  ["dtype", "dtype"],
  ["status", "status"],
  ["verdict", "verdict"],
  ["machine", "machine"],
];

report.filter = { chosen: {}, text: "" };

/** The indices of the rows that the filters select. */
report.selected = function () {
  const { chosen, text } = report.filter;
  const facets = Object.entries(chosen).filter(([, values]) => values.size);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return report.every().filter(
    (index) =>
      facets.every(([column, values]) => values.has(String(report.of(index, column) ?? "none"))) &&
      words.every((word) => report.searched(index).includes(word)),
  );
};

/** The text of a row in which words are searched. */
report.searched = function (index) {
  report.texts ??= report.every().map((row) =>
    ["cell", "suite", "dtype", "status", "stage", "reason", "detail", "remedy", "first_error", "first_error_detail", "device_name", "flags", "rewrites", "machine"]
      .filter((column) => report.column.has(column))
      .map((column) => report.of(row, column) ?? "")
      .join(" ")
      .toLowerCase(),
  );
  return report.texts[index];
};

/** Draw the filters. `changed` is called after each change. */
report.drawFilters = function (element, changed) {
  const { h, filter } = report;
  const counted = h("output", { id: "counted", "aria-live": "polite" });
  let waiting;
  const type = (event) => {
    filter.text = event.target.value;
    clearTimeout(waiting);
    waiting = setTimeout(changed, 150);
  };
  const search = h("input", { type: "search", placeholder: "Search cells, reasons, details …", "aria-label": "Search", value: filter.text, oninput: type });
  const facets = report.FACETS.filter(([column]) => report.column.has(column)).map(([column, label]) => report.facet(column, label, changed)).filter(Boolean);
  const clear = () => {
    filter.chosen = {};
    filter.text = "";
    report.drawFilters(element, changed);
    changed();
  };
  element.replaceChildren(search, ...facets, h("button", { type: "button", id: "clear", onclick: clear }, "Clear"), counted);
};

/** One filter: a list of values with their counts, of which any number can be chosen. */
report.facet = function (column, label, changed) {
  const { h, filter } = report;
  const counts = new Map();
  for (const value of report.table.values[column]) {
    const name = String(value ?? "none");
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  if (counts.size < 2) return null;
  const summary = h("summary", {});
  const say = () => {
    const values = [...(filter.chosen[column] ?? [])];
    summary.textContent = values.length ? `${label}: ${values.length > 2 ? `${values.length} chosen` : values.join(", ")}` : label;
    summary.classList.toggle("active", values.length > 0);
  };
  const boxes = [...counts].map(function ([name, count]) {
    const change = (event) => {
      filter.chosen[column] ??= new Set();
      filter.chosen[column][event.target.checked ? "add" : "delete"](name);
      say();
      changed();
    };
    return h("label", {}, h("input", { type: "checkbox", value: name, checked: filter.chosen[column]?.has(name), onchange: change }), name, h("small", {}, ` ${count}`));
  });
  say();
  const list = h("details", { class: "facet", "data-facet": column }, summary, h("div", { class: "choices" }, boxes));
  list.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && list.open) {
      list.open = false;
      summary.focus();
      event.stopPropagation();
    }
  });
  return list;
};

/** The filters as parameters of the address, and back. */
report.filterToAddress = function (parameters) {
  for (const [column] of report.FACETS) {
    for (const value of report.filter.chosen[column] ?? []) parameters.append(column, value);
  }
  if (report.filter.text) parameters.set("text", report.filter.text);
};

report.filterFromAddress = function (parameters) {
  report.filter.chosen = {};
  for (const [column] of report.FACETS) {
    const values = parameters.getAll(column);
    if (values.length) report.filter.chosen[column] = new Set(values);
  }
  report.filter.text = parameters.get("text") ?? "";
};
