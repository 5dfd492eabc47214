"use strict";
/* A table of rows that sorts by any column, shows more on request, and saves what it shows as CSV. */

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

/** A table of texts with a title. `right`: the places of columns of numbers. A cell is a text, or has a `text`, an `href` and a `kind`. */
report.textTable = function ({ title, note, head, rows, right = [] }) {
  const { h } = report;
  const kind = (place) => (right.includes(place) ? "number" : null);
  const shown = (one) => (one?.href ? h("a", { href: one.href }, one.text) : (one?.text ?? one));
  const cells = (row) => row.map((one, place) => h("td", { class: [kind(place), one?.kind].filter(Boolean).join(" ") || null }, shown(one)));
  return h(
    "section",
    {},
    title && h("h2", {}, shown(title)),
    note && h("p", { class: "note" }, note),
    rows.length > 0 && h("div", { class: "scroll" }, h("table", { class: "rows" }, h("thead", {}, h("tr", {}, head.map((name, place) => h("th", { scope: "col", class: kind(place) }, name)))), h("tbody", {}, rows.map((row) => h("tr", {}, cells(row)))))),
  );
};
