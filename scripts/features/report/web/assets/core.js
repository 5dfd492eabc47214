"use strict";
/* What all parts of the page use: elements, compressed data, numbers as text. Texts from the data become
   text nodes; nothing is parsed as HTML. */
const report = { views: {} };

/** An element with attributes and children. Strings and numbers become text nodes; null is left out. */
report.h = function (tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
};

/** The JSON of a data element of the page. It is decompressed once. */
report.data = function (name) {
  report.loaded ??= new Map();
  if (!report.loaded.has(name)) report.loaded.set(name, report.decompress(name));
  return report.loaded.get(name);
};

report.decompress = async function (name) {
  const element = document.getElementById(`data-${name}`);
  const text = element.textContent;
  element.textContent = "";
  return report.unpack(text);
};

/** JSON that was compressed with gzip, from base64. */
report.unpack = async function (text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
};

/** [key, members] of the groups of some values, in the order of their first members. */
report.groups = function (values, key) {
  const groups = new Map();
  for (const value of values) {
    if (!groups.has(key(value))) groups.set(key(value), []);
    groups.get(key(value)).push(value);
  }
  return [...groups];
};

/** A latency with three significant digits, as in latency.md. */
report.ms = (value) => report.significant(value, 3);

report.significant = function (value, digits) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits)))));
  if (size < -4) return value.toExponential(digits - 1);
  const places = Math.max(0, digits - 1 - size);
  return value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places });
};

report.seconds = (value) =>
  value === null || value === undefined ? "–" : value > 0 && value < 1 ? `${Math.round(1000 * value)} ms` : `${report.significant(value, 3)} s`;

report.mebibytes = (value) =>
  value === null || value === undefined
    ? "–"
    : value >= 1024
      ? `${report.significant(value / 1024, 3)} GiB`
      : `${report.significant(value, 3)} MiB`;

report.bytes = function (value) {
  if (value === null || value === undefined) return "–";
  if (value < 1024) return `${value} B`;
  return value < 2 ** 20 ? `${report.significant(value / 1024, 3)} KiB` : report.mebibytes(value / 2 ** 20);
};

report.percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;

/** A button that copies a text, beside it. */
report.command = function (text) {
  const { h } = report;
  const button = h("button", { type: "button", class: "copy", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected";
    }
  }
  const code = h("code", {}, text);
  return h("div", { class: "command" }, code, button);
};

/** Offer a text as a file to save. */
report.save = function (name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  report.h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
};
