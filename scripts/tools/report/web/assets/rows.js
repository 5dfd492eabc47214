"use strict";
/* The filters that all views of rows share, which are in the address of the page; and a table of rows that sorts by any column, shows more on request, and saves what it shows as CSV. */

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

report.PAGE = 100;

/** The text of a value in a table. */
report.shown = function (column, value) {
  if (value === null) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "number") return String(value);
  if (column.kind === "integer") return column.unit === "bytes" ? report.bytes(value) : value.toLocaleString("en");
  return report.significant(value, 3);
};

/** Numbers before texts, and rows without a value last. */
report.compare = function (one, other) {
  if (one === other) return 0;
  if (one === null) return 1;
  if (other === null) return -1;
  return typeof one === "number" ? one - other : String(one).localeCompare(String(other), "en", { numeric: true });
};

/** Rows sorted by a column; rows without a value stay last in both directions. */
report.sorted = function (indices, { column, falling }) {
  const values = report.table.values[column];
  return [...indices].sort(function (a, b) {
    const order = report.compare(values[a], values[b]);
    return falling && values[a] !== null && values[b] !== null ? -order : order;
  });
};

/** The rows and columns as CSV (RFC 4180). */
report.csv = function (indices, columns) {
  const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const text = (value) => (value === null ? "" : quoted(String(value)));
  const lines = [columns, ...indices.map((index) => columns.map((name) => report.of(index, name)))];
  return lines.map((line) => line.map(text).join(",") + "\r\n").join("");
};

/** Draw the table into an element. `state` keeps columns, sorting and length between calls. */
report.drawTable = function (element, indices, state) {
  const { h } = report;
  const again = () => report.drawTable(element, indices, state);
  const rows = report.sorted(indices, state.sort);
  const head = state.columns.map(function (name) {
    const column = report.column.get(name);
    const falling = state.sort.column === name && state.sort.falling;
    const order = state.sort.column !== name ? null : falling ? "descending" : "ascending";
    const sort = () => {
      state.sort = { column: name, falling: order === "ascending" };
      again();
      element.querySelector(`[data-column="${CSS.escape(name)}"]`).focus();
    };
    const unit = column.unit && !["count", "number", "ratio"].includes(column.unit) && !name.endsWith(`_${column.unit}`);
    return h(
      "th",
      { scope: "col", "aria-sort": order, class: report.isNumber(column) && "number", title: column.about },
      h("button", { type: "button", "data-column": name, onclick: sort }, name.replaceAll("_", " "), unit && ` (${column.unit})`, order && (falling ? " ↓" : " ↑")),
    );
  });
  const body = rows.slice(0, state.length).map((index) =>
    h(
      "tr",
      {},
      state.columns.map(function (name) {
        const column = report.column.get(name);
        const text = report.shown(column, report.of(index, name));
        const shown = name === "cell" ? report.opener(index, text) : text;
        return h("td", { class: report.isNumber(column) ? "number" : name === "detail" && "long" }, shown);
      }),
    ),
  );
  const more = () => {
    state.length += 10 * report.PAGE;
    again();
  };
  element.replaceChildren(
    h(
      "div",
      { class: "bar" },
      h("span", {}, `${rows.length.toLocaleString("en")} rows`),
      h("button", { type: "button", class: "export", onclick: () => report.save("vmfbench.csv", report.csv(rows, state.columns), "text/csv") }, "Save these rows as CSV"),
      report.columnPicker(state, again),
    ),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of rows" }, h("table", { class: "rows" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, body))),
    rows.length > state.length ? h("button", { type: "button", onclick: more }, `Show more of ${rows.length.toLocaleString("en")} rows`) : "",
  );
};

report.isNumber = (column) => column.kind === "number" || column.kind === "integer";

/** A list of all columns, of which one chooses those that are shown. */
report.columnPicker = function (state, changed) {
  const { h } = report;
  const boxes = report.table.columns.map(function (column) {
    const change = (event) => {
      state.columns = report.table.columns
        .map((one) => one.name)
        .filter((name) => (name === column.name ? event.target.checked : state.columns.includes(name)));
      if (!state.columns.length) state.columns = ["cell"];
      state.picking = true;
      changed();
    };
    return h("label", { title: column.about }, h("input", { type: "checkbox", checked: state.columns.includes(column.name), onchange: change }), column.name);
  });
  const toggled = (event) => (state.picking = event.target.open);
  return h("details", { class: "picker", open: state.picking, ontoggle: toggled }, h("summary", {}, "Columns"), h("div", { class: "choices" }, boxes));
};
