"use strict";
/* Sorts the runs by any column; the order of the page, grouped by cause, comes back with the third press. A box shows
   only the runs that hold its words. */

const table = document.querySelector("table.fleet");
const heads = [...table.querySelectorAll("thead th")];
const bodies = [...table.tBodies];
const rows = bodies.flatMap((body) => [...body.rows].filter((row) => row.id));
const home = new Map(rows.map((row) => [row, row.parentElement]));
const flat = document.createElement("tbody");

const box = document.createElement("input");
box.type = "search";
box.className = "filter";
box.placeholder = "filter runs";
box.setAttribute("aria-label", "filter runs");
table.parentElement.before(box);
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/);
  for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  for (const body of bodies) body.hidden = ![...body.rows].some((row) => row.id && !row.hidden);
});

heads.forEach((head, column) => {
  if (head.textContent === "curve") return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
  head.replaceChildren(button);
  button.addEventListener("click", () => sort(head, column));
});

function sort(head, column) {
  const next = { none: "ascending", ascending: "descending", descending: "none" };
  const way = next[head.getAttribute("aria-sort") || "none"];
  for (const other of heads) other.removeAttribute("aria-sort");
  if (way === "none") {
    flat.remove();
    for (const row of rows) home.get(row).append(row);
    table.append(...bodies);
    return;
  }
  head.setAttribute("aria-sort", way);
  const sign = way === "ascending" ? 1 : -1;
  const keyed = rows.map((row, place) => [key(row.cells[column].textContent.trim()), place, row]);
  keyed.sort(([a, at], [b, there]) => compare(a, b, sign) || at - there);
  for (const body of bodies) body.remove();
  flat.append(...keyed.map(([, , row]) => row));
  table.append(flat);
}

function key(text) {
  return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
}

function compare(a, b, sign) {
  if (a === "" || b === "") return (a === "") - (b === ""); // what is unknown comes last either way
  if (typeof a === typeof b) return sign * (a < b ? -1 : a > b ? 1 : 0);
  return typeof a === "number" ? -1 : 1;
}
