// The branches of a conversation as a graph: one lane each, leaving its parent at the turn where it was forked.

import { ago, h, s, short, toast } from "./dom.js";

const LANE = 34, ROW = 46, LEFT = 22, TOP = 26, RADIUS = 8;

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
    h("p", { class: "facts" }, "Each lane is a branch; a dot is a turn where branches part or end. Choose a branch to read it."),
    h("div", { class: "graph-scroll" }, picture(graph, rows, chat, shown)),
    h("ul", { class: "plain branches" }, chat.branches.map((branch, index) => item(branch, index, chat, shown))),
  ];
}

/** Give every branch a lane and every turn at which something happens a row. */
function layout(branches) {
  const seqs = new Set([0]);
  for (const branch of branches) { seqs.add(branch.fork_seq); seqs.add(branch.last_turn_seq); }
  const rows = new Map([...seqs].sort((a, b) => a - b).map((seq, index) => [seq, index]));
  const lanes = new Map(branches.map((branch, index) => [branch.branch_id, index]));
  const graph = branches.map((branch, index) => ({
    branch, index, x: LEFT + index * LANE, from: rows.get(branch.fork_seq), to: rows.get(branch.last_turn_seq),
    parent: branch.parent_id === null ? null : lanes.get(branch.parent_id) ?? null,
  }));
  return { graph, rows };
}

function picture(graph, rows, chat, shown) {
  const y = (row) => TOP + row * ROW;
  const width = Math.max(384, LEFT * 2 + graph.length * LANE + 190), height = TOP + rows.size * ROW;
  const svg = s("svg", { width, height, viewBox: `0 0 ${width} ${height}`, class: "graph", role: "group", "aria-label": "Branches" });
  for (const [seq, row] of rows) {
    svg.append(s("line", { x1: 0, x2: width, y1: y(row), y2: y(row), class: "grid" }), s("text", { x: width - 4, y: y(row) - 4, class: "seq", "text-anchor": "end" }, seq ? `turn ${seq}` : "start"));
  }
  for (const lane of graph) {
    const kind = `lane c${lane.index % 8}${lane.branch.active ? " active" : ""}`;
    const begun = y(lane.from), end = y(lane.to);
    const left = lane.parent === null ? null : graph[lane.parent].x;
    const path = left === null ? `M${lane.x} ${begun}V${end}` : `M${left} ${begun}C${left} ${begun + ROW / 2} ${lane.x} ${begun} ${lane.x} ${Math.min(begun + ROW / 2, Math.max(end, begun + ROW / 2))}V${Math.max(end, begun + ROW / 2)}`;
    svg.append(s("path", { d: path, class: kind }));
  }
  for (const lane of graph) {
    const at = Math.max(y(lane.to), lane.parent === null ? 0 : y(lane.from) + ROW / 2);
    const name = nameOf(lane.branch, lane.index);
    const open = () => openBranch(chat, lane.branch);
    svg.append(s("g", {
      class: `node c${lane.index % 8}${lane.branch.branch_id === shown ? " shown" : ""}`, tabindex: 0, role: "button",
      "aria-label": `${name}, ${lane.branch.last_turn_seq} turns${lane.branch.active ? ", active" : ""}`,
      onclick: open, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } },
    }, s("circle", { cx: lane.x, cy: at, r: RADIUS }), s("text", { x: lane.x + RADIUS + 6, y: at + 4, class: "label" }, short(name, 22)), s("title", {}, name)));
  }
  return svg;
}

const nameOf = (branch, index) => branch.label || `branch ${index + 1}`;

function openBranch(chat, branch) {
  location.hash = branch.active ? `#/t/${chat.id}` : `#/t/${chat.id}?branch=${branch.branch_id}`;
}

function item(branch, index, chat, shown) {
  return h("li", { class: branch.branch_id === shown ? "shown" : "" },
    h("span", { class: `dot c${index % 8}` }),
    h("span", { class: "grow" }, h("b", {}, nameOf(branch, index)), branch.active ? " (active)" : "",
      h("span", { class: "facts" }, ` ${branch.last_turn_seq} turns${branch.parent_id ? `, from turn ${branch.fork_seq}` : ""} · ${ago(branch.created_at)}`)),
    h("button", { type: "button", onclick: () => openBranch(chat, branch) }, "Read"),
    branch.active ? null : h("button", { type: "button", onclick: () => chat.activate(branch.branch_id).catch((error) => toast(error.told, "error")) }, "Go on here"));
}
