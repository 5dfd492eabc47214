"use strict";
/* Tables of texts and links. */

report.views.lists = {
  hasRows: false,

  draw(element, data) {
    const { h } = report;
    for (const one of data.tables) {
      element.append(report.textTable(one));
      if (one.image) element.append(h("p", {}, h("img", { src: one.image, alt: one.title })));
      if (one.command) element.append(report.command(one.command));
    }
  },
};
