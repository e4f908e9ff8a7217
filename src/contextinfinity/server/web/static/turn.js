// One turn as a row: the message, the answer, what it cost, and what can be done with it.

import { ago, dollars, h, number, short, showRendered } from "./dom.js";

const ENDINGS = {
  incomplete: "cut off", paused: "waiting for tools", failed: "failed", cancelled: "stopped", clarification: "asked back",
};

function picture(turn, index) {
  const stored = `/threads/${turn.thread_id}/turns/${turn.turn_id}/images/${index + 1}`, address = turn.pictures?.[index] ?? stored;
  return h("a", { href: turn.turn_id ? stored : address, target: "_blank", rel: "noopener" },
    h("img", { src: address, alt: `Attached image ${index + 1}`, loading: "lazy" }));
}

function facts(turn) {
  const { usage } = turn;
  const cached = usage?.input_tokens ? Math.round((100 * usage.cached_tokens) / usage.input_tokens) : 0;
  return [
    `#${turn.seq ?? ""}`,
    turn.created_at && ago(turn.created_at),
    turn.model,
    usage?.input_tokens && `${number(usage.input_tokens)} in`,
    usage?.output_tokens && `${number(usage.output_tokens)} out`,
    cached ? `${cached}% cached` : null,
    usage && dollars(usage.cost),
  ].filter(Boolean).join(" · ");
}

/** Fill the place of the answer: rendered text, then what has arrived since as plain text. */
export function drawAnswer(place, turn) {
  const text = turn.text ?? "", tail = text.slice(text.slice(0, turn.shown ?? 0).trimEnd().length);
  place.classList.toggle("running", Boolean(turn.running));
  if (place.lastHtml !== turn.html) {
    place.tail?.remove();
    showRendered(place, turn.html ?? "");
    place.lastHtml = turn.html;
  }
  if (!turn.running && !tail.trim()) return;
  if (!place.tail?.isConnected) endOf(place).append(place.tail = h("span", { class: "tail" }));
  place.tail.textContent = tail;
}

/** Return the block in which the text goes on: the last paragraph, item or line of code. */
function endOf(place) {
  const last = [...place.childNodes].findLast((node) => node.nodeType === Node.ELEMENT_NODE || node.data.trim());
  if (last?.matches?.("p, ul, ol, li, blockquote, .code, pre, pre > code")) return endOf(last);
  if (place.tagName === "CODE" && last?.data) last.data = last.data.trimEnd();
  return place;
}

function shown(value) {
  if (Array.isArray(value) && value.every((block) => block?.type === "text")) value = value.map((block) => block.text).join("");
  return short((typeof value === "string" ? value : JSON.stringify(value, null, 1)) ?? "", 4000);
}

function notes(turn, act) {
  const made = [];
  for (const tool of turn.tools ?? []) {
    const output = tool.output ?? null;
    made.push(h("details", { class: "tool" }, h("summary", {}, tool.name ? `Tool ${tool.name}` : "Result of a tool", output === null ? "" : tool.is_error ? " · failed" : " · done"),
      tool.arguments === null ? null : h("pre", { tabIndex: 0, "aria-label": "Arguments" }, shown(tool.arguments)),
      output === null ? null : h("pre", { tabIndex: 0, class: tool.is_error ? "wrong" : "", "aria-label": "Result" }, shown(output))));
  }
  if (turn.status) made.push(h("p", { class: "status" }, turn.status));
  if (turn.outcome && ENDINGS[turn.outcome] && turn.outcome !== "clarification") {
    made.push(h("p", { class: `ending ${turn.outcome}` }, ENDINGS[turn.outcome],
      turn.error ? `: ${turn.error.message} ${turn.error.hint ?? ""}` : ""));
  }
  if (turn.candidates) {
    made.push(h("div", { class: "candidates", role: "group", "aria-label": "Which one is meant?" }, turn.candidates.map((one) =>
      h("button", { type: "button", onclick: () => act("answer", turn, one.name) }, one.name))));
  }
  return made;
}

const ACTIONS = [
  ["copy", "Copy", "Copy the answer"],
  ["edit", "Edit", "Edit this message on a new branch"],
  ["regenerate", "Regenerate", "Answer again on a new branch"],
  ["fork", "Fork", "Start a branch after this turn"],
  ["rollback", "Roll back", "Go on from here on a new branch; the old one stays"],
  ["pin", "Pin", "Pin the selected text, or the message"],
  ["inspect", "What it saw", "Show what the model saw"],
];

/** Build the row of a turn; `act(name, turn, value)` is called for its buttons. */
export function turnRow(turn, act, versions = null) {
  if (!turn) return h("article", { class: "turn loading", "aria-label": "Loading", "aria-busy": "true", tabIndex: -1 }, h("p", {}, " "));
  const answer = h("div", { class: "answer prose" });
  const row = h("article", { class: "turn", tabIndex: -1, "aria-label": `Turn ${turn.seq ?? ""}` },
    h("div", { class: "question" },
      turn.editing ? editor(turn, act) : said(turn),
      turn.images ? h("div", { class: "pictures" }, Array.from({ length: turn.images }, (_, index) => picture(turn, index))) : null),
    answer,
    h("div", { class: "notes" }, notes(turn, act)),
    h("footer", {},
      versions && !turn.running ? pager(turn, act, versions) : null,
      h("span", { class: "facts", title: facts(turn) }, facts(turn)),
      turn.turn_id && !turn.running ? h("span", { class: "actions", role: "group", "aria-label": `Turn ${turn.seq}` },
        ACTIONS.map(([name, label, title]) =>
          h("button", { type: "button", title, "aria-label": label, "data-act": name, onclick: () => act(name, turn) })),
        turn.outcome === "failed" ? h("button", { type: "button", "data-act": "retry", onclick: () => act("retry", turn) }, "Try again") : null)
        : null));
  drawAnswer(answer, turn);
  row.answer = answer;
  return row;
}

/** Show a message; of a long one, such as an attached file, the beginning. */
function said(turn) {
  const text = turn.user ?? "", made = h("div", { class: "said" }, text);
  if (text.length < 2500 && text.split("\n", 30).length < 30) return made;
  const button = h("button", { type: "button", class: "more", onclick: () => { turn.isWhole = !turn.isWhole; draw(); } });
  const draw = () => {
    made.classList.toggle("cut", !turn.isWhole);
    button.setAttribute("aria-expanded", Boolean(turn.isWhole));
    button.textContent = turn.isWhole ? "Show less" : "Show all";
  };
  draw();
  return [made, button];
}

/** Step through the versions of a turn: each is on a branch of its own. */
function pager(turn, act, { all, at }) {
  const step = (by, sign, label) => h("button", { type: "button", "aria-label": label, disabled: !all[at + by], onclick: () => act("version", turn, all[at + by]) }, sign);
  return h("span", { class: "pager", role: "group", "aria-label": `Version ${at + 1} of ${all.length}` },
    step(-1, "‹", "Older version"), `${at + 1} / ${all.length}`, step(1, "›", "Newer version"));
}

function editor(turn, act) {
  const area = h("textarea", { "aria-label": "Edit the message", dir: "auto", value: turn.user, rows: Math.min(12, turn.user.split("\n").length + 1) });
  const done = () => act("edited", turn, area.value);
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") act("unedit", turn);
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) done();
  });
  setTimeout(() => area.focus());
  return h("div", { class: "editor" }, area, h("div", { class: "row end" },
    h("button", { type: "button", onclick: () => act("unedit", turn) }, "Cancel"),
    h("button", { type: "button", class: "primary", onclick: done }, "Send on a new branch")));
}
