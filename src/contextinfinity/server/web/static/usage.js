// Tokens, cache hits and cost over the conversation, as a plot.

import { get } from "./api.js";
import { dollars, h, number, s } from "./dom.js";

const WIDTH = 400, HEIGHT = 180, MOST_BARS = 320;

export function show(body, chat) {
  let mine = 0;
  const draw = async () => {
    const now = ++mine;
    if (!chat.thread) { body.replaceChildren(h("p", { class: "none" }, "No conversation is open.")); return; }
    try {
      const turns = await load(chat, () => now === mine);
      if (now === mine) body.replaceChildren(...view(turns));
    } catch (error) {
      body.replaceChildren(h("p", { class: "wrong" }, error.told ?? String(error)));
    }
  };
  for (const what of ["answered", "changed"]) chat.addEventListener(what, draw);
  draw();
  return () => { mine = -1; for (const what of ["answered", "changed"]) chat.removeEventListener(what, draw); };
}

/** Read what every turn of the branch took. */
async function load(chat, goesOn) {
  const turns = [];
  let before = null;
  do {
    const page = await get(`${chat.path}/messages`, { limit: 500, before, branch_id: chat.aside });
    turns.unshift(...page.messages.filter((one) => one.role === "assistant" && one.usage).map((one) => ({ seq: one.turn_seq, ...one.usage })));
    before = page.before;
  } while (before && goesOn());
  return turns;
}

/** Put turns together so that no more bars are drawn than fit. */
function groups(turns) {
  const size = Math.ceil(turns.length / MOST_BARS) || 1;
  const made = [];
  for (let at = 0; at < turns.length; at += size) {
    const part = turns.slice(at, at + size);
    const mean = (name) => part.reduce((sum, one) => sum + (one[name] ?? 0), 0) / part.length;
    made.push({ from: part[0].seq, to: part.at(-1).seq, input: mean("input_tokens"), cached: mean("cached_tokens"), output: mean("output_tokens"), cost: mean("cost") * part.length });
  }
  return made;
}

function view(turns) {
  const sum = (name) => turns.reduce((total, one) => total + (one[name] ?? 0), 0);
  const input = sum("input_tokens"), cached = sum("cached_tokens");
  const known = turns.some((one) => one.cost !== null && one.cost !== undefined);
  const facts = [["Turns", number(turns.length)], ["Input tokens", number(input)], ["of them cached", `${number(cached)} (${input ? Math.round((100 * cached) / input) : 0}%)`], ["Output tokens", number(sum("output_tokens"))], ["Cost", known ? dollars(sum("cost")) : "unknown"]];
  const bars = groups(turns);
  return [
    h("dl", { class: "figures" }, facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("h3", {}, "Tokens per turn"), tokens(bars),
    h("p", { class: "facts" }, h("span", { class: "dot repeated" }), " cached input ", h("span", { class: "dot c0" }), " new input ", h("span", { class: "dot c2" }), " output"),
    known ? [h("h3", {}, "Cost, summed up"), costs(bars)] : null,
  ].flat().filter(Boolean);
}

function plot(label, most, unit, draw) {
  const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "plot", role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    const y = HEIGHT - 22 - part * (HEIGHT - 40);
    svg.append(s("line", { x1: 62, x2: WIDTH, y1: y, y2: y, class: "grid" }), s("text", { x: 58, y: y + 4, "text-anchor": "end", class: "seq" }, unit(part * most)));
  }
  draw(svg, (value) => (most ? (value / most) * (HEIGHT - 40) : 0));
  return svg;
}

function tokens(bars) {
  const most = Math.max(1, ...bars.map((one) => one.input + one.output));
  const width = (WIDTH - 66) / Math.max(1, bars.length);
  return plot(`Tokens per turn, at most ${number(Math.round(most))}`, most, (value) => number(Math.round(value)), (svg, height) => {
    bars.forEach((one, index) => {
      const x = 64 + index * width;
      let y = HEIGHT - 22;
      const group = s("g", {}, s("title", {}, `turn ${one.from === one.to ? one.from : `${one.from}–${one.to}`}: ${number(Math.round(one.input))} in, ${number(Math.round(one.cached))} cached, ${number(Math.round(one.output))} out`));
      for (const [value, kind] of [[one.cached, "repeated"], [one.input - one.cached, "c0"], [one.output, "c2"]]) {
        const tall = height(Math.max(0, value));
        y -= tall;
        group.append(s("rect", { x, y, width: Math.max(0.7, Math.min(width - 1, 26)), height: tall, class: kind }));
      }
      svg.append(group);
    });
    if (bars.length) svg.append(s("text", { x: 64, y: HEIGHT - 6, class: "seq" }, `turn ${bars[0].from}`), s("text", { x: WIDTH, y: HEIGHT - 6, "text-anchor": "end", class: "seq" }, `turn ${bars.at(-1).to}`));
  });
}

function costs(bars) {
  let total = 0;
  const points = bars.map((one, index) => [index, (total += one.cost)]);
  return plot(`Cost, ${dollars(total)} in all`, total, (value) => dollars(value) || "$0", (svg, height) => {
    const x = (index) => 64 + (index * (WIDTH - 68)) / Math.max(1, bars.length - 1);
    svg.append(s("polyline", { points: points.map(([index, value]) => `${x(index)},${HEIGHT - 22 - height(value)}`).join(" "), class: "line" }));
  });
}
