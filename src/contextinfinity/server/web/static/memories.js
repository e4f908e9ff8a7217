// The memory manager: what is remembered across conversations, where it came from, and how to delete it.

import { call, get, post } from "./api.js";
import { ago, ask, confirm, h, toast } from "./dom.js";

export function show(body, chat) {
  const query = h("input", { type: "search", "aria-label": "Search memories", placeholder: "Search memories", class: "grow" });
  const fact = h("input", { type: "text", "aria-label": "A fact to remember", placeholder: "A fact to remember", class: "grow" });
  const list = h("ul", { class: "plain memories" });
  const more = h("button", { type: "button", hidden: true, onclick: () => load(next) }, "More");
  const findings = h("div", { "aria-live": "polite" });
  let next = null;
  const load = (after = null) => act(async () => {
    const page = await get("/memories", { q: query.value.trim(), after, limit: 50 });
    next = page.next;
    more.hidden = !next;
    const items = page.memories.map((memory) => item(memory, () => load()));
    if (after) list.append(...items);
    else list.replaceChildren(...(items.length ? items : [h("li", { class: "none" }, "Nothing is remembered yet.")]));
  });
  const add = () => act(async () => {
    await post("/memories", { content: fact.value });
    fact.value = "";
    await load();
  });
  let timer;
  query.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(load, 250); });
  fact.addEventListener("keydown", (event) => { if (event.key === "Enter") add(); });
  const answered = () => load();
  chat.addEventListener("answered", answered);
  body.append(
    h("p", { class: "facts" }, "Memories follow you from conversation to conversation. Each names the turn it was extracted from; forgetting one deletes it permanently."),
    h("div", { class: "row" }, query),
    h("div", { class: "row" }, fact, h("button", { type: "button", class: "primary", onclick: add }, "Remember")),
    list, more,
    h("div", { class: "row" }, h("a", { class: "button", href: "/memories/export", download: "memories.json" }, "Export"),
      h("button", { type: "button", onclick: () => act(async () => {
        const told = (await get("/memories/audit")).findings;
        findings.replaceChildren(h("h3", {}, "Audit"), told.length ? h("ul", {}, told.map((one) => h("li", {}, Object.values(one).filter((value) => typeof value === "string").join(" · ")))) : h("p", {}, "No memory is doubled, over, or without its source."));
      }) }, "Audit")), findings);
  load();
  return () => chat.removeEventListener("answered", answered);
}

function item(memory, changed) {
  const path = `/memories/${memory.id}`;
  return h("li", {},
    h("span", { class: "grow" }, memory.content, h("span", { class: "facts" }, ` ${memory.kind} · ${memory.origin} · ${ago(memory.created_at)}${memory.valid_to ? " · no longer true" : ""} `,
      memory.source_turn ? h("a", { href: "#", onclick: (event) => { event.preventDefault(); source(memory); } }, "source") : null)),
    h("button", { type: "button", "aria-label": `Edit: ${memory.content}`, onclick: () => act(async () => {
      const words = await ask("Edit this memory", memory.content);
      if (words !== null && words.trim()) { await call("PATCH", path, { body: { content: words } }); await changed(); }
    }) }, "Edit"),
    h("button", { type: "button", "aria-label": `Forget: ${memory.content}`, onclick: () => act(async () => {
      if (await confirm("Forget this?", memory.content, "Forget", "danger")) { await call("DELETE", path); await changed(); }
    }) }, "Forget"));
}

const source = (memory) => act(async () => {
  const turn = await get(`/threads/-/turns/${memory.source_turn}`);
  location.hash = `#/t/${turn.thread_id}?turn=${turn.turn_seq}&id=${turn.turn_id}`;
});

async function act(work) {
  try {
    await work();
  } catch (error) {
    toast(error.told ?? String(error), "error");
  }
}
