// What the model saw: the exact request of a turn, its token budget drawn, and two requests compared.

import { get } from "./api.js";
import { h, number, s, short } from "./dom.js";

const COLOURS = 8;

export function show(body, chat, given) {
  let turn = given ?? chat.turns.get(chat.feed.count) ?? null;
  const chosen = h("input", { type: "number", min: 1, id: "seen-turn", "aria-label": "Turn" });
  const other = h("input", { type: "number", min: 1, id: "seen-other", "aria-label": "Compare with turn", placeholder: "before" });
  const place = h("div", { "aria-live": "polite" });
  const draw = async () => {
    if (!turn?.turn_id) { place.replaceChildren(h("p", { class: "none" }, "Nothing has been asked yet.")); return; }
    chosen.value = turn.seq;
    place.replaceChildren(h("p", { class: "none" }, "Loading…"));
    try {
      const compared = Number(other.value) ? await turnAt(chat, Number(other.value)) : null;
      const path = `/threads/${turn.thread_id}/turns`;
      const [seen, against] = await Promise.all([
        get(`${path}/${turn.turn_id}/context`, { compare: compared?.turn_id }),
        compared ? get(`${path}/${compared.turn_id}/context`) : null,
      ]);
      place.replaceChildren(...view(seen, against, compared));
    } catch (error) {
      place.replaceChildren(h("p", { class: "wrong" }, error.told ?? String(error)));
    }
  };
  chosen.addEventListener("change", async () => { turn = await turnAt(chat, Number(chosen.value)); draw(); });
  other.addEventListener("change", draw);
  const answered = () => { if (!given) { turn = chat.turns.get(chat.feed.count) ?? turn; draw(); } };
  const opened = () => { if (turn && turn.thread_id !== chat.thread?.thread_id) { turn = null; given = null; draw(); } };
  chat.addEventListener("answered", answered);
  const loaded = () => { if (!turn) answered(); };
  chat.addEventListener("loaded", loaded);
  chat.addEventListener("changed", opened);
  body.append(h("div", { class: "row" }, h("label", {}, "Turn ", chosen), h("label", {}, "compared with ", other)), place);
  draw();
  return () => { chat.removeEventListener("answered", answered); chat.removeEventListener("loaded", loaded); chat.removeEventListener("changed", opened); };
}

async function turnAt(chat, seq) {
  await chat.want(seq, seq);
  return chat.turns.get(seq) ?? null;
}

function view(seen, against, compared) {
  const { plan } = seen;
  if (plan.candidates?.length) return [h("p", {}, "No model was asked: the question which one is meant was asked back."), h("ul", {}, plan.candidates.map((one) => h("li", {}, one)))];
  return [
    h("p", { class: "facts" }, `${seen.provider} · ${seen.model} · ${number(seen.usage.input_tokens)} tokens in, ${number(seen.usage.cached_tokens)} of them cached · ${number(seen.usage.output_tokens)} out`),
    seen.matches ? h("p", { class: "ok" }, "✓ Exactly what was sent: the rebuilt request has the stored hash.") : h("p", { class: "wrong" }, "Rebuilt from what is left: something it was made from is gone."),
    h("h3", {}, "Token budget"),
    budget(plan),
    h("h3", {}, compared ? `Repeats turn ${compared.seq}` : "Repeats the request before"),
    share(seen),
    against ? comparison(seen, against, compared) : null,
    plan.contextualised ? [h("h3", {}, "The question made explicit"), h("p", {}, plan.contextualised)] : null,
    plan.left_out?.length ? [h("h3", {}, "Left out"), h("ul", { class: "plain" }, plan.left_out.map((one) => h("li", {}, `${one.what}: ${one.reason}${one.tokens ? ` (${number(one.tokens)} tokens)` : ""}`)))] : null,
    seen.quoted?.length ? [h("h3", {}, "Brought back from the past"), h("ul", { class: "plain" }, seen.quoted.map((one) =>
      h("li", {}, h("span", { class: "facts" }, `${one.score.toFixed(2)} · ${one.role}${one.turn_seq ? ` · turn ${one.turn_seq}` : " · another conversation"} `), short(one.text, 300))))] : null,
    plan.route ? [h("h3", {}, "Why this model"), h("p", {}, typeof plan.route === "object" ? plan.route.reason ?? JSON.stringify(plan.route) : String(plan.route))] : null,
    h("h3", {}, "The request"),
    seen.system.map((text, index) => message("system", text, index)),
    seen.messages.map((one, index) => message(one.role, wordsOf(one), index)),
    h("details", {}, h("summary", {}, "As JSON"), h("pre", { tabIndex: 0 }, short(JSON.stringify(seen.body, null, 1) ?? "", 200000))),
  ].flat(2).filter(Boolean);
}

function message(role, text, index) {
  return h("details", { class: `seen ${role}`, open: text.length < 600 }, h("summary", {}, h("b", {}, role), ` ${short(text.replace(/\s+/g, " "), 70)}`), h("pre", { tabIndex: 0 }, text));
}

function wordsOf(one) {
  return one.blocks.map((block) => {
    if (block.type === "text") return block.text;
    if (block.type === "tool_result") return `[result of ${block.tool_use_id}] ${(block.content ?? []).map((inner) => inner.text ?? `[${inner.type}]`).join("")}`;
    if (block.type === "tool_use") return `[calls ${block.name}] ${JSON.stringify(block.input)}`;
    return `[${block.type}]`;
  }).join("\n");
}

/** Draw how the window is shared out: each section, what is reserved, and what is free. */
export function budget(plan) {
  const limits = plan.budget ?? {};
  const parts = (plan.sections ?? []).filter((one) => one.tokens).map((one, index) => ({ name: one.name, tokens: one.tokens, kind: `c${index % COLOURS}` }));
  const used = parts.reduce((sum, one) => sum + one.tokens, 0);
  const limit = Math.max(limits.model_limit ?? 0, used, 1);
  const reserve = limits.response_reserve ?? 0, safety = limits.safety_margin ?? 0;
  const free = Math.max(0, limit - used - reserve - safety);
  const whole = [...parts, { name: "free", tokens: free, kind: "free" }, { name: "reserved for the answer", tokens: reserve, kind: "reserve" }, { name: "safety margin", tokens: safety, kind: "safety" }].filter((one) => one.tokens);
  return [
    bar(whole, limit, `${number(used)} of ${number(limit)} tokens used`),
    used / limit < 0.2 && used ? [h("p", { class: "facts" }, "What is used, enlarged:"), bar(parts, used, `Sections of ${number(used)} tokens`)] : null,
    h("table", { class: "legend" }, h("tbody", {}, whole.map((one) => h("tr", {},
      h("td", {}, h("span", { class: `dot ${one.kind}` })), h("th", { scope: "row" }, one.name.replaceAll("_", " ")),
      h("td", { class: "num" }, number(one.tokens)), h("td", { class: "num" }, `${((100 * one.tokens) / limit).toFixed(1)}%`))))),
  ].flat().filter(Boolean);
}

function bar(parts, total, label) {
  let x = 0;
  return s("svg", { viewBox: "0 0 1000 40", class: "budget", role: "img", "aria-label": label, preserveAspectRatio: "none" }, parts.map((one) => {
    const width = (1000 * one.tokens) / total;
    const made = s("rect", { x, y: 0, width: Math.max(0.5, width), height: 40, class: one.kind }, s("title", {}, `${one.name}: ${one.tokens} tokens`));
    x += width;
    return made;
  }));
}

function share(seen) {
  const { shared_bytes: shared, total_bytes: total } = seen;
  const percent = total ? Math.round((100 * shared) / total) : 0;
  return [
    bar([{ name: "repeated", tokens: shared, kind: "repeated" }, { name: "new", tokens: total - shared, kind: "new" }].filter((one) => one.tokens), total || 1, `${percent}% repeated`),
    h("p", { class: "facts" }, `${number(shared)} of ${number(total)} bytes from the beginning on (${percent}%): what a provider's prompt cache can serve.`),
  ];
}

/** Hold two requests against each other: tokens of each section, then the first message in which they differ. */
function comparison(seen, against, compared) {
  const sections = (one) => new Map((one.plan.sections ?? []).map((section) => [section.name, section.tokens]));
  const mine = sections(seen), theirs = sections(against);
  const rows = [...new Set([...mine.keys(), ...theirs.keys()])].map((name) => {
    const [a, b] = [mine.get(name) ?? 0, theirs.get(name) ?? 0];
    return h("tr", {}, h("th", { scope: "row" }, name.replaceAll("_", " ")), h("td", { class: "num" }, number(b)), h("td", { class: "num" }, number(a)), h("td", { class: "num" }, `${a > b ? "+" : ""}${number(a - b)}`));
  });
  const texts = (one) => [...one.system, ...one.messages.map((message) => `${message.role}: ${wordsOf(message)}`)];
  const [now, before] = [texts(seen), texts(against)];
  let at = 0;
  while (at < now.length && now[at] === before[at]) at++;
  return [
    h("table", { class: "compare" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Section"), h("th", { scope: "col" }, `turn ${compared.seq}`), h("th", { scope: "col" }, "this"), h("th", { scope: "col" }, "change"))), h("tbody", {}, rows)),
    h("p", {}, `The first ${at} of ${now.length} messages are the same; turn ${compared.seq} had ${before.length}.`),
    before.slice(at).map((text) => h("pre", { tabIndex: 0, class: "minus" }, `− ${short(text, 1500)}`)),
    now.slice(at).map((text) => h("pre", { tabIndex: 0, class: "plus" }, `+ ${short(text, 1500)}`)),
  ].flat();
}
