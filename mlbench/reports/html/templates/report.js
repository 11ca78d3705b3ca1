"use strict";
// The page is whole without this: it makes tables sortable, filters long ones, opens what a link points to, names marks on hover and on a click, and switches a chart's axes.
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead th").forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, heading, column));
  });
}

const longest = 8;
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < longest) continue;
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "Show rows with: bert onnxruntime fp32";
  box.setAttribute("aria-label", "Show only rows with these words");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  (table.closest(".scroll") ?? table).before(box);
}

function sort(table, heading, column) {
  const ascending = heading.getAttribute("aria-sort") !== "ascending";
  for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  const body = table.tBodies[0];
  const compare = (one, other) => {
    const [a, b] = [one.cells[column], other.cells[column]];
    const [x, y] = [a.dataset.order, b.dataset.order];
    const isNumber = heading.classList.contains("number");
    if (isNumber && (x === undefined || y === undefined)) return (x === undefined) - (y === undefined);
    const order = isNumber ? x - y : a.textContent.localeCompare(b.textContent);
    return ascending ? order : -order;
  };
  body.append(...[...body.rows].sort(compare));
}

function open() {
  const target = document.getElementById(location.hash.slice(1));
  for (let part = target; part; part = part.parentElement) if (part.localName === "details") part.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", open);
if (location.hash) open();

for (const mark of document.querySelectorAll("figure [role=graphics-symbol][aria-label]")) {
  const title = document.createElementNS("http://www.w3.org/2000/svg", "title");
  title.textContent = mark.getAttribute("aria-label");
  mark.append(title);
}

for (const figure of document.querySelectorAll("figure")) {
  const views = [...figure.querySelectorAll(".chart")];
  const named = document.createElement("p");
  named.className = "named";
  named.setAttribute("role", "status");
  views.at(-1).after(named);
  figure.addEventListener("click", (event) => {
    const mark = event.target.closest("[role=graphics-symbol][aria-label]");
    if (mark) named.textContent = mark.getAttribute("aria-label");
  });
  if (views.length < 2) continue;
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "Percentile and axis of the chart");
  choice.append(...views.map((view) => new Option(view.dataset.view)));
  choice.addEventListener("change", () => views.forEach((view, number) => (view.hidden = number !== choice.selectedIndex)));
  views[0].before(choice);
}
