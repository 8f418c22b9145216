"use strict";
// Show values under the pointer or by arrow keys; they are read from the tables of the page.
for (const figure of document.querySelectorAll("figure.chart")) {
  const svg = figure.querySelector("svg[data-low]"), table = figure.querySelector("table");
  if (!svg || !table) continue;
  const readout = figure.querySelector(".readout"), cursor = svg.querySelector(".cursor");
  const head = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const rows = [...table.tBodies[0].rows];
  const steps = rows.map((row) => Number(row.cells[0].textContent));
  const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
  const low = Number(svg.dataset.low), span = Number(svg.dataset.high) - low;
  let at = -1;
  const show = (index) => {
    at = Math.max(0, Math.min(rows.length - 1, index));
    const x = left + (span ? (steps[at] - low) / span : 0.5) * (right - left);
    cursor.setAttribute("x1", x); cursor.setAttribute("x2", x);
    cursor.style.visibility = "visible";
    const cells = [...rows[at].cells].map((cell, i) => [head[i], cell.textContent]);
    readout.textContent = cells.filter((pair) => pair[1]).map((pair) => pair.join(" ")).join(" · ");
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    const step = low + (x - left) / (right - left) * span;
    let best = 0;
    for (let i = 1; i < steps.length; i += 1) if (Math.abs(steps[i] - step) < Math.abs(steps[best] - step)) best = i;
    show(best);
  });
  svg.addEventListener("pointerleave", () => { cursor.style.visibility = "hidden"; readout.textContent = ""; });
  svg.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -rows.length, End: rows.length }[event.key];
    if (move === undefined) return;
    event.preventDefault(); show(at < 0 ? 0 : at + move);
  });
}
// Viridis: readable for colour-blind people and in grey.
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const colour = (level) => {
  const place = (level - 1) / 254 * (STOPS.length - 1), i = Math.min(STOPS.length - 2, Math.floor(place));
  return STOPS[i].map((from, k) => Math.round(from + (STOPS[i + 1][k] - from) * (place - i)));
};
const paint = (canvas, cells) => {
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  cells.forEach((level, i) => image.data.set(level ? [...colour(level), 255] : [0, 0, 0, 0], 4 * i));
  context.putImageData(image, 0, 0);
};
for (const canvas of document.querySelectorAll("canvas[data-cells]")) {
  const cells = Uint8Array.from(atob(canvas.dataset.cells), (c) => c.charCodeAt(0));
  paint(canvas, cells);
  const figure = canvas.closest("figure"), readout = figure.querySelector(".readout");
  const names = [...figure.querySelectorAll("tbody th")].map((cell) => cell.textContent);
  const steps = canvas.dataset.steps.split(" "), low = Number(canvas.dataset.low);
  const span = Number(canvas.dataset.high) - low;
  let column = 0, row = 0;
  const show = () => {
    const level = cells[row * canvas.width + column];
    const value = level ? (10 ** (low + span * (level - 1) / 254)).toPrecision(2) : "no data";
    readout.textContent = `${names[row] ?? ""} at step ${steps[column]}: ${value}`;
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    column = Math.max(0, Math.min(canvas.width - 1, Math.floor((event.clientX - box.left) / box.width * canvas.width)));
    row = Math.max(0, Math.min(canvas.height - 1, Math.floor((event.clientY - box.top) / box.height * canvas.height)));
    show();
  });
  canvas.addEventListener("pointerleave", () => { readout.textContent = ""; });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    column = Math.max(0, Math.min(canvas.width - 1, column + move[0]));
    row = Math.max(0, Math.min(canvas.height - 1, row + move[1]));
    show();
  });
}
for (const canvas of document.querySelectorAll("canvas.scale")) paint(canvas, Uint8Array.from({ length: 255 }, (_, i) => i + 1));
// Print collapsed text, but no data of charts.
addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = part.open || !part.closest("figure"); });
