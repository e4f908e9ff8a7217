// Building elements. Text from anywhere is only ever set as text; HTML comes from the server's renderer alone.

const policy = globalThis.trustedTypes?.createPolicy("cix-server-html", { createHTML: (html) => html });

export const $ = (id) => document.getElementById(id);

/** Create an element. Properties that start with "on" are listeners; null, undefined and false children are skipped. */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** Create an SVG element; all properties become attributes. */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else if (name in element && !(element instanceof SVGElement) && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Show HTML that POST /render returned; blocks that are there already stay. This is the only place where a string becomes HTML. */
export function showRendered(element, html) {
  const made = h("template");
  made.innerHTML = policy ? policy.createHTML(html) : html;
  const blocks = [...made.content.children], sources = blocks.map((block) => block.outerHTML);
  let same = 0;
  while (same < sources.length && sources[same] === element.sources?.[same]) same++;
  while (element.children.length > same) element.lastChild.remove();
  element.append(...blocks.slice(same));
  element.sources = sources;
  for (const block of element.querySelectorAll("pre, table")) {
    if (block.parentNode.matches(".code, .table")) continue;
    const isCode = block.tagName === "PRE", frame = h("div", { class: isCode ? "code" : "table" });
    block.replaceWith(frame);
    (isCode ? block : frame).tabIndex = 0;
    if (isCode) frame.append(h("button", { type: "button", class: "copy", "data-icon": "copy", title: "Copy", "aria-label": "Copy the code", onclick: () => copy(block.textContent) }));
    frame.append(block);
  }
}

/** Copy a text; the clipboard's own API exists on https and loopback only. */
export async function copy(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else {
    const area = h("textarea", { value: text, class: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  toast("Copied.");
}

export function toast(text, kind = "info") {
  const made = h("div", { class: `toast ${kind}` }, text, h("button", {
    type: "button", "aria-label": "Close", onclick: () => made.remove(),
  }, "×"));
  $("toasts").append(made);
  setTimeout(() => made.remove(), kind === "error" ? 12000 : 5000);
}

export function announce(text) {
  $("announce").textContent = text;
}

/** Open a modal dialog; resolves with its return value once it is closed. */
export function dialog(title, content, buttons = [["Close", ""]]) {
  return new Promise((resolve) => {
    const made = h("dialog", { "aria-labelledby": "dialog-title", onclose: () => { made.remove(); resolve(made.returnValue); } },
      h("form", { method: "dialog" },
        h("h2", { id: "dialog-title" }, title),
        h("div", { class: "body" }, content),
        h("div", { class: "row end" }, buttons.map(([label, value, kind]) =>
          h("button", { type: "submit", value, class: kind ?? "" }, label)))));
    made.addEventListener("click", (event) => { if (event.target === made) made.close(""); });
    document.body.append(made);
    made.showModal();
  });
}

/** Ask for a line of text; resolves with null when the dialog is cancelled. */
export async function ask(title, value = "", label = title) {
  const input = h("input", { type: "text", value, "aria-label": label, class: "wide" });
  const chosen = dialog(title, input, [["Cancel", ""], ["Save", "ok", "primary"]]);
  input.form.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); input.closest("dialog").close("ok"); }
  });
  input.select();
  return (await chosen) === "ok" ? input.value : null;
}

export async function confirm(title, text, action, kind = "primary") {
  return (await dialog(title, h("p", {}, text), [["Cancel", ""], [action, "ok", kind]])) === "ok";
}

const formatter = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });
const UNITS = [["year", 31536000], ["month", 2592000], ["day", 86400], ["hour", 3600], ["minute", 60]];

export function ago(iso) {
  const seconds = (Date.parse(iso) - Date.now()) / 1000;
  for (const [unit, size] of UNITS) if (Math.abs(seconds) >= size) return formatter.format(Math.round(seconds / size), unit);
  return "now";
}

export const number = (value) => new Intl.NumberFormat("en").format(value ?? 0);
export const dollars = (cost) => (cost === null || cost === undefined ? "" : `$${cost.toFixed(cost && cost < 1 ? 4 : 2)}`);
export const short = (text, most = 80) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
