"use strict";
/* Starts the page: tabs, address, and what is drawn when. */

report.start = async function () {
  const main = document.getElementById("main");
  if (typeof DecompressionStream === "undefined") {
    main.textContent = "This browser cannot decompress the data of the page (DecompressionStream is missing; browsers since 2023 have it).";
    return;
  }
  const [{ views, title, root }, table] = await Promise.all([report.data("views"), report.data("rows")]);
  report.setRows(table);
  report.root = root;
  report.keptTheme();
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
  document.getElementById("filters").hidden = !script.hasRows;
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

/* The address: #view?model=…&text=…&cell=… and the parameters of the view itself, which are in report.extra. */

report.address = function (view, cell = "") {
  const parameters = new URLSearchParams();
  report.filterToAddress(parameters);
  if (cell) parameters.set("cell", cell);
  if (view === report.view) for (const [name, value] of Object.entries(report.extra)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  return `#${view}${text && `?${text}`}`;
};

report.fromAddress = function () {
  const [view, text] = location.hash.slice(1).split("?");
  const parameters = new URLSearchParams(text ?? "");
  report.view = report.tabs.some((one) => one.name === view) ? view : report.tabs[0].name;
  report.filterFromAddress(parameters);
  const { script } = report.tabs.find((one) => one.name === report.view);
  const names = report.views[script].parameters ?? [];
  report.extra = Object.fromEntries(names.filter((name) => parameters.has(name)).map((name) => [name, parameters.get(name)]));
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
  const dark = getComputedStyle(document.documentElement).getPropertyValue("--scheme").trim() === "dark";
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    sessionStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch {
    // A browser may forbid it; then the next page has the colours of the system.
  }
};

/** Take the colours that were chosen on another page of the site. */
report.keptTheme = function () {
  try {
    const theme = sessionStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme;
  } catch {
    // as above
  }
};

report.start().catch(function (error) {
  document.getElementById("main").replaceChildren(report.h("p", { role: "alert" }, `The page could not be drawn: ${error}`));
  console.error(error);
});
