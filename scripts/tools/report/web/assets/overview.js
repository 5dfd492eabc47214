"use strict";
/* The matrix as a map, and what was measured with what. */

report.views.overview = {
  colour: "outcome",

  draw(element, data, indices) {
    const { h } = report;
    element.append(
      this.counts(indices),
      this.chooser(() => this.drawMap(map, data, new Set(report.selected()))),
    );
    const map = h("div", {});
    element.append(map);
    this.drawMap(map, data, new Set(indices));
    for (const section of data.sections) report.drawSection(element, section);
  },

  /** Rows by ending, as a table of counts. */
  counts(indices) {
    const { h } = report;
    const counts = new Map(report.groups(indices, (index) => report.of(index, "ending")).map(([ending, group]) => [ending, group.length]));
    const parts = Object.keys(report.table.endings).filter((one) => counts.has(one));
    return h("ul", { class: "counts" }, parts.map((one) =>
      h("li", { title: report.table.endings[one] }, h("span", { class: `tag ${report.endingClass(one)}` }, counts.get(one)), ` ${one}`)));
  },

  COLOURS: [
    ["outcome", "outcome"],
    ["eager", "speed-up over eager"],
    ["inductor", "speed-up over inductor"],
    ["verdict", "against the faster of both"],
  ],

  chooser(changed) {
    const { h } = report;
    const boxes = this.COLOURS.map(([value, label]) => {
      const change = () => {
        this.colour = value;
        changed();
      };
      return h("label", {}, h("input", { type: "radio", name: "colour", value, checked: value === this.colour, onchange: change }), label);
    });
    return h("fieldset", { class: "chooser" }, h("legend", {}, "Show"), boxes);
  },

  drawMap(element, data, chosen) {
    const { h } = report;
    const cells = data.cells.filter(([, , index]) => chosen.has(index));
    const byPlace = new Map(cells.map(([row, column, index]) => [row * data.columns.length + column, index]));
    const inOrder = (places) => [...new Set(places)].sort((one, other) => one - other);
    const rows = inOrder(cells.map(([row]) => row));
    const columns = inOrder(cells.map(([, column]) => column));
    if (!rows.length) {
      element.replaceChildren(h("p", {}, "No row is selected."));
      return;
    }
    const groups = report.groups(columns, (column) => data.columns[column][1]);
    const head = [
      h("tr", {}, h("td", {}), groups.map(([target, found]) => h("th", { colspan: found.length, scope: "colgroup" }, target || "baselines"))),
      h("tr", {}, h("th", { scope: "col" }, "model"), groups.flatMap(([, found]) => found.map((column, place) => h("th", { scope: "col", class: place === 0 && "first" }, data.columns[column][0])))),
    ];
    const firsts = new Set(groups.map(([, [first]]) => first));
    const body = rows.map((row) =>
      h("tr", {}, h("th", { scope: "row" }, data.rows[row][0], data.rows[row][1] && h("small", {}, ` ${data.rows[row][1]}`)), columns.map((column) => {
        const index = byPlace.get(row * data.columns.length + column);
        const first = firsts.has(column) ? "first " : "";
        if (index === undefined) return h("td", { class: `${first}none` });
        const { text, kind, style } = this.shown(index);
        return h("td", { class: first + kind, style }, report.opener(index, text));
      })),
    );
    const table = h("table", { class: "map" }, h("thead", {}, head), h("tbody", {}, body));
    table.addEventListener("keydown", this.move);
    for (const opener of table.querySelectorAll(".opener")) opener.tabIndex = -1;
    const first = table.querySelector(".opener");
    if (first) first.tabIndex = 0;
    element.replaceChildren(this.legend(), h("div", { class: "scroll" }, table));
  },

  /** Text and colour of a cell of the map. */
  shown(index) {
    const ending = report.of(index, "ending");
    const kind = report.endingClass(ending);
    if (this.colour === "outcome" || report.of(index, "latency_ms") === null) return { text: report.mark(index), kind: this.colour === "outcome" ? kind : "plain" };
    if (ending === "other path") return { text: report.mark(index), kind: "plain" };
    if (this.colour === "verdict") return { text: report.of(index, "verdict") ?? "–", kind: report.of(index, "verdict") ?? "plain" };
    const value = report.of(index, `speedup_vs_${this.colour}`);
    if (value === null) return { text: report.speedup(index, this.colour), kind: "plain" };
    const low = report.of(index, `speedup_vs_${this.colour}_low`);
    const high = report.of(index, `speedup_vs_${this.colour}_high`);
    const known = low !== null && (low > 1 || high < 1);
    const strength = Math.min(1, Math.abs(Math.log2(value)) / 2);
    const colour = value > 1 ? "var(--faster)" : "var(--slower)";
    return {
      text: value.toFixed(2),
      kind: known ? "ratio" : "ratio unknown",
      style: known ? { "background-color": `color-mix(in srgb, ${colour} ${Math.round(15 + 70 * strength)}%, var(--paper))` } : {},
    };
  },

  legend() {
    const { h } = report;
    const tag = (kind, text) => h("span", { class: `tag ${kind}` }, text);
    if (this.colour === "outcome") return h("p", { class: "note" }, "A cell opens its details. ✓: verified. ✓ remedy: verified, compiled with other flags than asked for. A reason: the class of the failure.");
    if (this.colour === "verdict") return h("p", { class: "note" }, ["faster", "slower", "same", "undecided"].flatMap((one) => [tag(one, one), " "]), "The latency against the faster of eager and inductor, by the 99 % interval of the ratio. Same: within 5 %.");
    return h("p", { class: "note" }, tag("faster", "faster"), " ", tag("slower", "slower"), ` Latency of ${this.colour} / latency of the cell. Without a colour: the 99 % interval contains 1, so no difference was found.`);
  },

  /** Arrow keys move between the cells of the map. */
  move(event) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const cell = event.target.closest("td");
    if (!cell || !steps[event.key]) return;
    const [down, right] = steps[event.key];
    let row = cell.parentElement;
    let place = cell.cellIndex;
    let button = null;
    while (!button) {
      row = down > 0 ? row.nextElementSibling : down < 0 ? row.previousElementSibling : row;
      place += right;
      if (!row?.cells[place]) return;
      button = row.cells[place].querySelector(".opener");
    }
    event.target.tabIndex = -1;
    button.tabIndex = 0;
    button.focus();
    event.preventDefault();
  },
};
