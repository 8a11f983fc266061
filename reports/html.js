"use strict";
/* Hover, zoom and links over the charts of a run. Without this script every word and chart is there all the same.
   Texts of the log are only ever set as textContent. */

for (const article of document.querySelectorAll("article")) {
  const block = article.querySelector("script.told");
  if (block) wire(article, JSON.parse(block.textContent));
}

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("pre");
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "selected: press Ctrl+C";
    }
  });
}

function wire(article, told) {
  const plots = [...article.querySelectorAll("svg.plot")];
  const full = plots[0].getAttribute("viewBox").split(" ").map(Number);
  const resets = article.querySelectorAll("button.reset");
  let view = [full[0], full[0] + full[2]];
  let at = -1;
  let drag = null;

  const hairs = plots.map((plot) => plot.appendChild(made("path", "hair")));
  const zones = plots.map((plot) => plot.appendChild(made("rect", "zone")));

  function show(begin, end) {
    view = [begin, end];
    for (const reset of resets) reset.hidden = begin === full[0] && end === full[0] + full[2];
    for (const name of article.querySelectorAll(".names text")) place(name, (100 * (name.dataset.x - begin)) / (end - begin));
    for (const plot of plots) plot.setAttribute("viewBox", `${begin} 0 ${end - begin} ${full[3]}`);
    for (const axis of article.querySelectorAll("svg.across")) label(axis, begin, end);
  }

  function place(name, share) {
    const at = Math.max(0, Math.min(100, share));
    name.setAttribute("class", at > 60 ? "ends" : "");
    name.setAttribute("x", `${at}%`);
    name.setAttribute("dx", at > 60 ? -6 : 6);
  }

  function label(axis, begin, end) {
    const rough = (end - begin) / 8;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, power * [1, 2, 5, 10].find((times) => power * times >= rough));
    const offset = told.first;
    axis.replaceChildren();
    for (let x = Math.ceil((begin + offset) / step) * step; x <= end + offset; x += step) {
      const text = axis.appendChild(made("text", ""));
      text.setAttribute("x", `${(100 * (x - offset - begin)) / (end - begin)}%`);
      text.setAttribute("y", "12");
      text.textContent = String(x);
    }
  }

  function nearest(x) {
    let low = 0;
    let high = told.x.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (told.x[middle] > x) high = middle; else low = middle;
    }
    return x - told.x[low] < told.x[high] - x ? low : high;
  }

  function point(row) {
    at = Math.max(0, Math.min(told.x.length - 1, row));
    for (const hair of hairs) hair.setAttribute("d", `M${told.x[at]} 0V${full[3]}`);
    for (const output of article.querySelectorAll("output")) {
      const values = told.series[output.dataset.field];
      const value = values ? `: ${values[at] === null ? "unknown" : values[at]}` : "";
      output.textContent = `step ${told.steps[at]}${value}`;
    }
  }

  function tell(row) {
    point(row);
    const panel = article.querySelector(".row");
    const step = told.steps[at];
    panel.hidden = false;
    panel.querySelector(".at").textContent = `Step ${step}`;
    const list = panel.querySelector("dl");
    list.replaceChildren();
    if (told.lines[at]) fact(list, "line of the log", told.lines[at]);
    for (const [field, values] of Object.entries(told.series)) {
      if (values[at] !== null) fact(list, field, values[at]);
    }
    const texts = panel.querySelector(".texts");
    texts.replaceChildren();
    const line = told.log[told.lines[at]];
    for (const text of [...(line ? [line] : []), ...(told.texts[step] || [])]) {
      texts.appendChild(document.createElement("pre")).textContent = text;
    }
  }

  function fact(list, name, value) {
    const pair = list.appendChild(document.createElement("div"));
    pair.appendChild(document.createElement("dt")).textContent = name;
    pair.appendChild(document.createElement("dd")).textContent = value;
  }

  const x = (plot, event) => {
    const box = plot.getBoundingClientRect();
    return view[0] + ((event.clientX - box.left) / box.width) * (view[1] - view[0]);
  };

  plots.forEach((plot) => {
    plot.addEventListener("pointermove", (event) => {
      point(nearest(x(plot, event)));
      if (drag !== null) mark(Math.min(drag, x(plot, event)), Math.abs(x(plot, event) - drag));
    });
    plot.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      drag = x(plot, event);
      plot.setPointerCapture(event.pointerId);
    });
    plot.addEventListener("pointerup", (event) => {
      if (drag === null) return;
      const begin = Math.min(drag, x(plot, event));
      const end = Math.max(drag, x(plot, event));
      drag = null;
      mark(0, 0);
      if (end - begin > 0.02 * (view[1] - view[0])) show(begin, end);
      else tell(nearest(begin));
    });
    plot.addEventListener("dragstart", (event) => event.preventDefault());
    plot.addEventListener("click", (event) => {
      if (event.detail) event.preventDefault(); // a pointer asks for the step, the keyboard for the finding
    });
    plot.addEventListener("dblclick", () => show(full[0], full[0] + full[2]));
    plot.addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight") point(at + 1);
      else if (event.key === "ArrowLeft") point(at - 1);
      else if (event.key === "Enter" && event.target === plot) tell(Math.max(at, 0));
      else if (event.key === "Escape") show(full[0], full[0] + full[2]);
      else return;
      event.preventDefault();
    });
  });

  function mark(begin, width) {
    for (const zone of zones) {
      zone.setAttribute("x", begin);
      zone.setAttribute("width", width);
      zone.setAttribute("height", full[3]);
    }
  }

  for (const reset of resets) reset.addEventListener("click", () => show(full[0], full[0] + full[2]));
  article.querySelector(".row button").addEventListener("click", (event) => {
    event.target.closest(".row").hidden = true;
  });
  for (const link of article.querySelectorAll("[data-step]")) {
    link.addEventListener("click", () => {
      const row = told.steps.findIndex((step) => step >= Number(link.dataset.step));
      tell(row < 0 ? told.steps.length - 1 : row);
    });
  }
}

function made(name, kind) {
  const element = document.createElementNS(document.querySelector("svg").namespaceURI, name);
  if (kind) element.setAttribute("class", kind);
  return element;
}
