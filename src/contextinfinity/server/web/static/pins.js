// Pinned facts, and folds: preview, fold, undo.

import { call, get, post } from "./api.js";
import { h, number, toast } from "./dom.js";

export function show(body, chat) {
  const fact = h("input", { type: "text", "aria-label": "A fact to pin", placeholder: "A fact every prompt must hold", class: "grow" });
  const list = h("ol", { class: "plain" });
  const fold = h("div", { "aria-live": "polite" });
  const draw = (pins) => list.replaceChildren(...(pins.length ? pins : [null]).map((pin) => pin
    ? h("li", {}, h("span", { class: "grow" }, pin.fact), h("button", { type: "button", "aria-label": `Unpin ${pin.fact}`, onclick: () => act(() => call("DELETE", `${chat.path}/pins`, { query: { n: pin.n, branch_id: chat.aside } }).then((told) => draw(told.pins))) }, "Unpin"))
    : h("li", { class: "none" }, "Nothing is pinned on this branch.")));
  let of;
  const load = async () => {
    if (of !== (of = `${chat.path} ${chat.aside}`)) fold.replaceChildren();
    if (!chat.thread) return draw([]);
    await act(async () => draw((await get(`${chat.path}/pins`, { branch_id: chat.aside })).pins));
  };
  const folding = (path, options) => act(async () => {
    fold.replaceChildren(h("p", { class: "none" }, "Working…"));
    fold.replaceChildren(...view(await post(`${chat.path}/${path}`, { ...options, branch_id: chat.aside })));
  }, () => fold.replaceChildren());
  const add = () => act(async () => {
    draw((await post(`${chat.path}/pins`, { fact: fact.value, branch_id: chat.aside })).pins);
    fact.value = "";
  });
  fact.addEventListener("keydown", (event) => { if (event.key === "Enter") add(); });
  for (const what of ["changed", "pinned"]) chat.addEventListener(what, load);
  body.append(
    h("h3", {}, "Pinned facts"), h("p", { class: "facts" }, "Pinned facts are in every prompt of this branch, verbatim."),
    h("div", { class: "row" }, fact, h("button", { type: "button", class: "primary", onclick: add }, "Pin")), list,
    h("h3", {}, "Folding"), h("p", { class: "facts" }, "A fold moves old turns from the word-for-word part of the prompt into the summary. Nothing is deleted, and it can be undone."),
    h("div", { class: "row" }, h("button", { type: "button", onclick: () => folding("fold", { preview: true }) }, "Preview"),
      h("button", { type: "button", onclick: () => folding("fold", {}) }, "Fold now"), h("button", { type: "button", onclick: () => folding("unfold", {}) }, "Undo the last fold")), fold);
  load();
  return () => { for (const what of ["changed", "pinned"]) chat.removeEventListener(what, load); };
}

async function act(work, failed = () => {}) {
  try {
    await work();
  } catch (error) {
    failed();
    toast(error.told ?? String(error), "error");
  }
}

function view(fold) {
  if (fold.case === "none") return [h("p", {}, "Nothing can be folded yet."), summary("Summary", fold.summary)].filter(Boolean);
  const what = fold.case === "unfold" ? "Undone: the summary before is back." : fold.committed ? "Folded." : "Preview: nothing has changed yet.";
  return [
    h("p", { class: "ok" }, what),
    h("p", { class: "facts" }, `The summary covers turns 1 to ${fold.covers_turn_seq}${fold.covered !== fold.covers_turn_seq ? ` (before: to ${fold.covered})` : ""}. ${fold.tokens_before ? `${number(fold.tokens_before)} → ${number(fold.tokens_after)} tokens. ` : ""}${fold.by ? `Written by ${fold.by}.` : ""} ${fold.notice}`),
    summary("New summary", fold.summary), summary("Summary before", fold.summary_before),
    lines("Leaves the word-for-word part", fold.leaves), lines("Stays verbatim", fold.stays), lines("Held as settled", fold.retired),
  ].filter(Boolean);
}

const summary = (title, text) => (text ? h("details", { open: title !== "Summary before" }, h("summary", {}, title), h("pre", { tabIndex: 0 }, text)) : null);
const lines = (title, all) => (all?.length ? h("details", {}, h("summary", {}, `${title} (${all.length})`), h("ul", {}, all.map((one) => h("li", {}, one)))) : null);
