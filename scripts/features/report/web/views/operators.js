"use strict";
/* Operator problems: what to fix first, and pass rates by operator and lowering path. */

report.views.operators = {
  hasRows: false,
  text: "",
  failing: true,

  draw(element, data) {
    const { h } = report;
    const again = () => {
      lists.replaceChildren();
      this.lists(lists, data);
    };
    const type = (event) => {
      this.text = event.target.value.toLowerCase();
      again();
    };
    const check = (event) => {
      this.failing = event.target.checked;
      again();
    };
    element.append(
      h("p", {}, `${data.title}.`),
      h("p", { class: "choice" }, h("input", { type: "search", placeholder: "Search operators …", "aria-label": "Search operators", value: this.text, oninput: type }), " ", h("label", {}, h("input", { type: "checkbox", checked: this.failing, onchange: check }), "only operators that fail somewhere")),
    );
    const lists = h("div", {});
    element.append(lists);
    this.lists(lists, data);
  },

  lists(element, data) {
    const { h } = report;
    const fixes = data.fixes.filter((one) => !this.text || `${one.operators.join(" ")} ${one.reason} ${one.detail}`.toLowerCase().includes(this.text));
    element.append(h("section", {}, h("h2", {}, "What to fix first"), h("p", { class: "note" }, "Failures that differ only in numbers, types or source lines are together, those with the most calls first. On no path: calls of problems that pass on no lowering path of a target."),
      fixes.length ? fixes.slice(0, 100).map((one) => this.fix(one)) : h("p", {}, "None.")));
    for (const target of data.targets) element.append(this.rates(target));
  },

  fix(one) {
    const { h } = report;
    return h("details", { class: "cluster" },
      h("summary", {}, h("span", { class: "count" }, one.calls.toLocaleString("en"), h("small", {}, one.calls === 1 ? " call" : " calls")), h("span", {}, h("strong", {}, `${one.fault}: ${one.reason || one.status}`), " ", h("code", {}, one.detail.slice(0, 200))), h("small", {}, `${one.operators.slice(0, 4).join(", ")}${one.operators.length > 4 ? ` and ${one.operators.length - 4} more` : ""}`)),
      report.list([
        ["stage", one.stage],
        ["status", one.status],
        ["calls on no path", one.blocked.toLocaleString("en")],
        ["problems", one.problems],
        ["where", one.where.join(", ")],
        ["operators", one.operators.join(", ")],
        ["models that only this blocks", one.models.join(", ")],
        ["arguments of the first problem", one.example],
      ]),
      h("pre", {}, one.detail),
    );
  },

  rates(found) {
    const { h } = report;
    const [all, ...operators] = found.operators;
    const shown = operators.filter(([op, , rates]) => op.toLowerCase().includes(this.text) && (!this.failing || rates.some(([passed, of]) => passed < of)));
    const row = ([op, calls, rates]) => h("tr", {}, h("th", { scope: "row" }, op), h("td", { class: "number" }, calls.toLocaleString("en")), rates.map(([passed, of]) => h("td", { class: `number ${passed === of ? "ending-verified" : passed ? "ending-other-path" : "ending-failed"}` }, `${passed} of ${of}`)));
    return h("section", {}, h("h2", {}, `${found.target}: ${found.ran ? "verified" : "compiled (there is no device to run it)"}`),
      h("div", { class: "scroll" }, h("table", { class: "rows" }, h("thead", {}, h("tr", {}, ["operator", "calls", ...found.columns, "best path"].map((name, place) => h("th", { scope: "col", class: place && "number" }, name)))), h("tbody", {}, row(all), shown.slice(0, 500).map(row)))));
  },
};
