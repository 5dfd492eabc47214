"use strict";
/* Starts the page: tabs, address, what is drawn when, and the details of a row. */

report.start = async function () {
  const main = document.getElementById("main");
  if (typeof DecompressionStream === "undefined") {
    main.textContent = "This browser cannot decompress the data of the page (DecompressionStream is missing; browsers since 2023 have it).";
    return;
  }
  const [{ views, title, block }, table] = await Promise.all([report.data("views"), report.data("rows")]);
  report.setRows(table);
  report.block = block;
  document.getElementById("title").textContent = title;
  report.tabs = views;
  report.fromAddress();
  report.drawTabs();
  report.drawFilters(document.getElementById("filters"), report.changed);
  document.addEventListener("click", report.clicked);
  document.getElementById("details").addEventListener("close", report.closed);
  document.getElementById("theme").addEventListener("click", report.switchTheme);
  addEventListener("hashchange", report.addressChanged);
  addEventListener("resize", report.resized);
  await report.draw();
  if (report.cell) report.openNamed(report.cell);
  document.documentElement.dataset.drawn = performance.now().toFixed(0);
};

report.drawTabs = function () {
  const links = report.tabs.map((view) =>
    report.h("a", { href: report.address(view.name), "aria-current": view.name === report.view ? "page" : null, class: !view.has_data && "empty" }, view.title),
  );
  document.getElementById("tabs").replaceChildren(...links);
};

/** Draw the current view. A view of rows is drawn with the rows that the filters select. */
report.draw = async function () {
  const main = document.getElementById("main");
  const view = report.tabs.find((one) => one.name === report.view);
  const script = report.views[view.script];
  const indices = report.selected();
  document.getElementById("filters").hidden = !view.filtered;
  document.getElementById("counted").textContent = `${indices.length.toLocaleString("en")} of ${report.count.toLocaleString("en")} rows`;
  const element = report.h("div", { class: `view ${view.name}` });
  if (!view.has_data) {
    const end = view.missing.indexOf(": ") + 1; // the command may have a colon too
    main.replaceChildren(report.h("p", {}, view.missing.slice(0, end)), report.command(view.missing.slice(end + 1)));
    main.dataset.view = view.name;
    return;
  }
  const data = await report.data(`view-${view.name}`);
  if (report.view !== view.name) return; // another tab was opened meanwhile
  main.replaceChildren(element);
  await script.draw(element, data, indices);
  main.dataset.view = view.name;
};

report.changed = function () {
  report.toAddress();
  report.drawTabs();
  report.draw();
};

report.clicked = function (event) {
  const opener = event.target.closest("[data-row]");
  if (opener) report.open(Number(opener.dataset.row));
  for (const list of document.querySelectorAll("details.facet[open]")) {
    if (!list.contains(event.target)) list.open = false;
  }
};

report.closed = function () {
  // The event comes after `close` has returned. By then, an address of another cell may have opened the dialog again.
  if (document.getElementById("details").open) return;
  report.cell = "";
  report.toAddress();
};

report.openNamed = function (cell) {
  const index = report.table.values.cell.indexOf(cell);
  if (index >= 0) report.open(index);
};

/* The address: #view?model=…&text=…&cell=… */

report.address = function (view, cell = "") {
  const parameters = new URLSearchParams();
  report.filterToAddress(parameters);
  if (cell) parameters.set("cell", cell);
  const text = parameters.toString();
  return `#${view}${text && `?${text}`}`;
};

report.fromAddress = function () {
  const [view, text] = location.hash.slice(1).split("?");
  const parameters = new URLSearchParams(text ?? "");
  report.view = report.tabs.some((one) => one.name === view) ? view : report.tabs[0].name;
  report.filterFromAddress(parameters);
  report.cell = parameters.get("cell") ?? "";
};

report.toAddress = () => history.replaceState(null, "", report.address(report.view, report.cell));

report.addressChanged = function () {
  document.getElementById("details").close();
  report.fromAddress();
  report.drawTabs();
  report.drawFilters(document.getElementById("filters"), report.changed);
  report.draw();
  if (report.cell) report.openNamed(report.cell);
};

report.resized = function () {
  if (report.widthNow === innerWidth) return;
  report.widthNow = innerWidth;
  clearTimeout(report.resizing);
  report.resizing = setTimeout(report.draw, 200);
};

report.switchTheme = function () {
  const { dataset } = document.documentElement;
  const bySystem = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  dataset.theme = (dataset.theme ?? bySystem) === "dark" ? "light" : "dark";
};

/** Open the details of a row in the dialog. */
report.open = async function (index) {
  const { h } = report;
  const sections = (await report.data(`details-${Math.floor(index / report.block)}`))[index % report.block];
  const dialog = document.getElementById("details");
  const [name, ending] = ["cell", "ending"].map((column) => report.of(index, column));
  report.cell = name;
  const history = report.tabs.some((one) => one.name === "history" && one.has_data) && h("p", {}, h("a", { href: `#history?text=${encodeURIComponent(name)}` }, "History of this cell"));
  const article = h(
    "article",
    {},
    h("header", {}, h("h2", {}, name), h("button", { type: "button", onclick: () => dialog.close(), "aria-label": "Close" }, "Close")),
    h("p", {}, h("span", { class: `tag ${report.endingClass(ending)}` }, ending), ` ${report.table.endings[ending]}.`),
    history,
  );
  dialog.replaceChildren(article);
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  for (const section of sections) report.drawSection(article, section, 3);
  report.toAddress();
};

report.start().catch(function (error) {
  document.getElementById("main").replaceChildren(report.h("p", { role: "alert" }, `The page could not be drawn: ${error}`));
  console.error(error);
});
