// The branches of a conversation as a graph: one lane each, leaving its parent at the turn where it was forked.

import { ago, h, s, short, toast } from "./dom.js";

const LANE = 34, ROW = 46, LEFT = 78, TOP = 26, RADIUS = 10;

export function show(body, chat) {
  const draw = () => body.replaceChildren(...view(chat));
  chat.addEventListener("changed", draw);
  draw();
  return () => chat.removeEventListener("changed", draw);
}

function view(chat) {
  if (!chat.branches.length) return [h("p", { class: "none" }, "No conversation is open.")];
  const { graph, rows } = layout(chat.branches);
  const shown = chat.branch?.branch_id;
  return [
    h("p", { class: "facts" }, "Each lane is a branch that ends in its number. Choose one to read it."),
    h("div", { class: "graph-scroll" }, picture(graph, rows, chat, shown)),
    h("ul", { class: "plain branches" }, chat.branches.map((branch, index) => item(branch, index, chat, shown))),
  ];
}

/** Give every branch a lane and every turn at which something happens a row. */
function layout(branches) {
  const seqs = new Set([0]);
  for (const branch of branches) { seqs.add(branch.fork_seq); seqs.add(branch.last_turn_seq); }
  const rows = new Map([...seqs].sort((a, b) => a - b).map((seq, index) => [seq, TOP + index * ROW]));
  const lanes = new Map(branches.map((branch, index) => [branch.branch_id, index]));
  const graph = branches.map((branch, index) => {
    const from = rows.get(branch.fork_seq), parent = lanes.get(branch.parent_id);
    const to = Math.max(rows.get(branch.last_turn_seq), parent === undefined ? 0 : from + ROW / 2);
    return { branch, index, x: LEFT + index * LANE, from, to, left: parent === undefined ? null : LEFT + parent * LANE };
  });
  return { graph, rows };
}

/** Draw turns as lines, branches as lanes that end in their number, and their names right of all lanes. */
function picture(graph, rows, chat, shown) {
  const right = LEFT + graph.length * LANE, width = Math.max(340, right + 150), height = TOP + rows.size * ROW;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "graph", role: "group", "aria-label": "Branches" });
  for (const [seq, y] of rows) {
    svg.append(s("line", { x1: LEFT - 14, x2: width, y1: y, y2: y, class: "grid" }), s("text", { x: 8, y: y + 4, class: "seq" }, seq ? `turn ${seq}` : "start"));
  }
  for (const { branch, index, x, from, to, left } of graph) {
    const bend = left === null ? `M${x} ${from}` : `M${left} ${from}C${left} ${from + ROW / 2} ${x} ${from} ${x} ${from + ROW / 2}`;
    svg.append(s("path", { d: `${bend}V${to}`, class: `lane c${index % 8}${branch.active ? " active" : ""}` }));
  }
  for (const y of new Set(graph.map((lane) => lane.to))) {
    const names = graph.filter((lane) => lane.to === y).map((lane) => nameOf(lane.branch, lane.index));
    svg.append(s("text", { x: right - 8, y: y + 4, class: "label" }, short(names.join(", "), 24)));
  }
  for (const { branch, index, x, to } of graph) {
    const name = nameOf(branch, index), open = () => openBranch(chat, branch);
    svg.append(s("g", {
      class: `node c${index % 8}${branch.branch_id === shown ? " shown" : ""}`, tabindex: 0, role: "button",
      "aria-label": `${name}, ${branch.last_turn_seq} turns${branch.active ? ", active" : ""}`,
      onclick: open, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } },
    }, s("circle", { cx: x, cy: to, r: RADIUS }), s("text", { x, y: to + 4, class: "n" }, index + 1), s("title", {}, name)));
  }
  return svg;
}

const nameOf = (branch, index) => branch.label || `branch ${index + 1}`;

function openBranch(chat, branch) {
  location.hash = branch.active ? `#/t/${chat.id}` : `#/t/${chat.id}?branch=${branch.branch_id}`;
}

function item(branch, index, chat, shown) {
  return h("li", { class: branch.branch_id === shown ? "shown" : "" },
    h("span", { class: `dot n c${index % 8}` }, String(index + 1)),
    h("span", { class: "grow" }, h("b", {}, nameOf(branch, index)), branch.active ? " (active)" : "",
      h("span", { class: "facts" }, ` ${branch.last_turn_seq} turns${branch.parent_id ? `, from turn ${branch.fork_seq}` : ""} · ${ago(branch.created_at)}`)),
    h("button", { type: "button", onclick: () => openBranch(chat, branch) }, "Read"),
    branch.active ? null : h("button", { type: "button", onclick: () => chat.activate(branch.branch_id).catch((error) => toast(error.told, "error")) }, "Go on here"));
}
