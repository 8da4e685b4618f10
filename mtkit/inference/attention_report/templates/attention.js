"use strict";
const lines = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const chosen = { head: 0 };
const SVG = "http://www.w3.org/2000/svg";
const ROW = 24, GAP = 220, MIN_WEIGHT = 0.02;

function current() {
  const line = lines[Number(byId("line").value)], kind = byId("kind").value;
  const layer = Number(byId("layer").value);
  return {
    weights: line[kind][layer],
    queries: kind === "encoder" ? line.source : line.target,
    memory: kind === "decoder" ? line.target : line.source,
    layer: layer,
  };
}

const show = (piece) => piece.replace(/^▁/, "") || "␣";

function listLayers() {
  const count = lines[Number(byId("line").value)][byId("kind").value].length;
  const select = byId("layer"), before = Math.min(Number(select.value || count - 1), count - 1);
  select.replaceChildren(...Array.from({ length: count }, (_, index) => {
    const option = document.createElement("option");
    option.value = index;
    option.textContent = index + 1;
    return option;
  }));
  select.value = before;
}

function drawHeads() {
  const { weights, queries, memory } = current();
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--weight").trim();
  chosen.head = Math.min(chosen.head, weights.length - 1);
  byId("heads").replaceChildren(...weights.map((rows, head) => {
    const canvas = document.createElement("canvas");
    canvas.width = memory.length;
    canvas.height = queries.length;
    const brush = canvas.getContext("2d");
    brush.fillStyle = colour;
    rows.forEach((row, y) => row.forEach((weight, x) => {
      brush.globalAlpha = weight;
      brush.fillRect(x, y, 1, 1);
    }));
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", head === chosen.head);
    button.append(`head ${head + 1}`, canvas);
    button.addEventListener("click", () => { chosen.head = head; draw(); });
    return button;
  }));
}

function place(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function drawLines() {
  const { weights, queries, memory, layer } = current();
  const rows = weights[chosen.head];
  const longest = Math.max(...queries.map((piece) => show(piece).length), 4);
  const left = 9 * longest + 12, right = left + GAP;
  const width = right + 9 * Math.max(...memory.map((piece) => show(piece).length), 4) + 12;
  const height = ROW * Math.max(queries.length, memory.length) + 8;
  const svg = byId("lines");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  const middle = (index) => ROW * index + ROW / 2;
  const drawn = [];
  rows.forEach((row, query) => row.forEach((weight, key) => {
    if (weight < MIN_WEIGHT) return;
    const element = place("line", { x1: left, y1: middle(query), x2: right, y2: middle(key), "stroke-opacity": weight });
    element.append(place("title", {}, `${show(queries[query])} to ${show(memory[key])}: ${weight.toFixed(3)}`));
    drawn.push({ element, query, key });
  }));
  const only = (test) => drawn.forEach((line) => line.element.classList.toggle("dim", !test(line)));
  const label = (piece, index, x, anchor, test) => {
    const element = place("text", { x, y: middle(index) + 5, "text-anchor": anchor, tabindex: 0 }, show(piece));
    element.addEventListener("pointerenter", () => only(test));
    element.addEventListener("focus", () => only(test));
    element.addEventListener("pointerleave", () => only(() => true));
    element.addEventListener("blur", () => only(() => true));
    return element;
  };
  svg.replaceChildren(
    ...drawn.map((line) => line.element),
    ...queries.map((piece, index) => label(piece, index, left - 6, "end", (line) => line.query === index)),
    ...memory.map((piece, index) => label(piece, index, right + 6, "start", (line) => line.key === index)),
  );
  byId("chosen").textContent = `Layer ${layer + 1}, head ${chosen.head + 1}`;
}

function draw() {
  drawHeads();
  drawLines();
}

for (const id of ["line", "kind"]) byId(id).addEventListener("change", () => { listLayers(); draw(); });
byId("layer").addEventListener("change", draw);
byId("choice").addEventListener("submit", (event) => event.preventDefault());
document.querySelectorAll("tr[data-kind] button").forEach((button) => {
  button.addEventListener("click", () => {
    const { kind, layer, head } = button.closest("tr").dataset;
    byId("kind").value = kind;
    listLayers();
    byId("layer").value = layer;
    chosen.head = Number(head);
    draw();
    byId("chosen").scrollIntoView();
  });
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
listLayers();
draw();
