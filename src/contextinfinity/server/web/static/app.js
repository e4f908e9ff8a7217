// The page: addresses, the login, panels, keyboard, drag and drop.

import { Problem, get, gone, me } from "./api.js";
import { Chat } from "./chat.js";
import { Composer } from "./composer.js";
import { $, confirm, dialog, h, short, toast } from "./dom.js";
import { unsent } from "./live.js";
import { chooseImport, importFiles, loadSettings, logIn, showSettings, showShortcuts } from "./settings.js";
import { Sidebar } from "./sidebar.js";

const settings = loadSettings();
const chat = new Chat(settings);
const sidebar = new Sidebar(chat);
const composer = new Composer(chat, settings);

/** Open what the address names: #/t/THREAD?branch=…&turn=SEQ&id=TURN */
async function route() {
  const [, id, rest] = /^#\/t\/([^?]+)(?:\?(.*))?$/.exec(location.hash) ?? [];
  closeMenu();
  if (!id) { chat.clear(); $("input").focus(); return; }
  const query = new URLSearchParams(rest ?? "");
  try {
    const name = threadOf(id);
    let branch = query.get("branch");
    const turnId = query.get("id");
    if (turnId) branch = await branchOf(name, turnId, Number(query.get("turn")));
    await chat.open(name, { branch, at: Number(query.get("turn")) || null });
  } catch (error) {
    if (error.status === 404) { toast("There is no such conversation.", "error"); location.hash = "#/"; } else if (error.status !== 401) toast(error.told ?? String(error), "error");
  }
}

/** Decode the name of a conversation; dots alone would lead out of /threads. */
function threadOf(id) {
  try {
    const name = decodeURIComponent(id);
    if (!/^\.+$/.test(name)) return name;
  } catch { /* no text */ }
  throw new Problem(404, {});
}

/** Return the branch on which a found turn is seen; null: the active one sees it. */
async function branchOf(id, turnId, seq) {
  const { messages } = await get(`/threads/${encodeURIComponent(id)}/messages`, { limit: 2, before: seq + 1 });
  if (messages.some((message) => message.turn_id === turnId)) return null;
  return (await get(`/threads/-/turns/${encodeURIComponent(turnId)}`)).branch_id;
}

const whoami = () => JSON.stringify([me.org_id, me.user_id]);

/** Whether another user logged in on this tab: what the one before wrote or read here must not be left. */
function isAnotherUser() {
  const who = whoami();
  try {
    const before = sessionStorage.getItem("cix-user");
    if (before === who) return false;
    sessionStorage.clear();
    sessionStorage.setItem("cix-user", who);
    return before !== null;
  } catch {
    return false; // no storage: nothing is left in it
  }
}

async function start() {
  Object.assign(me, await get("/login"));
  if (isAnotherUser()) return location.reload();
  chat.tell({ user: whoami() });
  $("user").textContent = me.user_id;
  await Promise.all([composer.models(), sidebar.load(), route()]);
  const waiting = unsent();
  if (waiting && (waiting.threadId === "new" ? !chat.id : waiting.threadId === chat.thread?.thread_id)) {
    chat.resend(waiting);
  }
}

function begin() {
  start().catch((error) => {
    if (error instanceof Problem && error.passes) setTimeout(begin, 1000);
    else if (error.status !== 401) toast(error.told ?? String(error), "error");
  });
}

chat.addEventListener("changed", () => {
  const { thread } = chat;
  const title = thread ? thread.title || thread.opening || "Untitled" : "New conversation";
  $("title").textContent = short(title, 90);
  document.title = thread ? `${short(title, 50)} – ContextInfinity` : "ContextInfinity";
  $("rename").hidden = !thread;
  const place = chat.branches.indexOf(chat.branch);
  $("branch").hidden = chat.branches.length < 2;
  $("branch").textContent = `${chat.branch?.label || `branch ${place + 1}`} · ${chat.branches.length} branches${chat.aside ? " · not active" : ""}`;
});

$("rename").addEventListener("click", async () => {
  const input = h("input", { type: "text", class: "wide", maxLength: 1000, value: chat.thread.title ?? "", placeholder: short(chat.thread.opening ?? "", 90), dir: "auto" });
  const chosen = await dialog("Conversation", h("label", {}, "Title ", input), [["Save", "ok", "primary"], ["Cancel", ""], ["Delete…", "delete", "danger first"]]);
  try {
    if (chosen === "ok") await chat.rename(input.value.trim());
    if (chosen === "delete" && await confirm("Delete this conversation?", "Every branch is deleted permanently, with everything derived from it.", "Delete", "danger")) await chat.remove();
  } catch (error) {
    toast(error.told, "error");
  }
});

const PANELS = { context: "./context.js", branches: "./branches.js", usage: "./usage.js", pins: "./pins.js", memories: "./memories.js" };
let panel = null;

/** Show a panel beside the conversation; the same one again closes it. */
async function showPanel(name, given = null) {
  if (panel?.name === name && !given) return closePanel();
  closePanel();
  panel = { name, close: () => {} };
  for (const button of $("tools").children) button.setAttribute("aria-pressed", String(button.dataset.panel === name));
  const holder = $("panel");
  const body = h("div", { class: "panel-body" });
  const title = document.querySelector(`[data-panel=${name}]`).textContent;
  holder.replaceChildren(h("header", {}, h("h2", { tabIndex: -1 }, title), h("button", { type: "button", "aria-label": "Close", onclick: closePanel }, "×")), body);
  holder.hidden = false;
  document.body.classList.add("with-panel");
  holder.querySelector("h2").focus({ preventScroll: true });
  const mine = panel;
  const module = await import(PANELS[name]);
  if (panel === mine) panel.close = module.show(body, chat, given) ?? (() => {});
}

function closePanel() {
  if (!panel) return;
  panel.close();
  document.querySelector(`[data-panel=${panel.name}]`).setAttribute("aria-pressed", "false");
  panel = null;
  $("panel").hidden = true;
  $("panel").replaceChildren();
  document.body.classList.remove("with-panel");
}

function openMenu() {
  document.body.classList.add("with-menu");
  $("menu").setAttribute("aria-expanded", "true");
}

function closeMenu() {
  document.body.classList.remove("with-menu");
  $("menu").setAttribute("aria-expanded", "false");
}

$("tools").addEventListener("click", (event) => {
  const button = event.target.closest("[data-panel]");
  if (button) showPanel(button.dataset.panel);
});
$("import").addEventListener("click", () => chooseImport(chat));
$("keys").addEventListener("click", showShortcuts);
$("branch").addEventListener("click", () => showPanel("branches"));
$("menu").addEventListener("click", () => (document.body.classList.contains("with-menu") ? closeMenu() : openMenu()));
$("main").addEventListener("click", (event) => { if (!event.target.closest("#menu")) closeMenu(); });
$("open-settings").addEventListener("click", () => showSettings(settings, chat));
chat.addEventListener("inspect", (event) => showPanel("context", event.detail));

function focusedTurn() {
  const seq = Number(document.activeElement?.closest?.("article[data-seq]")?.dataset.seq);
  return chat.turns.get(seq || chat.feed.count) ?? null;
}

function step(by) {
  const seq = Number(document.activeElement?.closest?.("article[data-seq]")?.dataset.seq);
  const next = Math.min(chat.feed.count, Math.max(1, (seq || chat.feed.count + 1) + by));
  if (chat.feed.count) chat.feed.show(next, true);
}

const KEYS = {
  "/": () => { openMenu(); $("query").focus(); },
  n: () => { location.hash = "#/"; $("input").focus(); },
  i: () => $("input").focus(),
  j: () => step(1),
  k: () => step(-1),
  e: () => focusedTurn() && chat.act("edit", focusedTurn()),
  r: () => focusedTurn() && chat.act("regenerate", focusedTurn()),
  w: () => focusedTurn() && chat.act("inspect", focusedTurn()),
  b: () => showPanel("branches"),
  m: () => showPanel("memories"),
  "?": showShortcuts,
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (document.body.classList.contains("with-menu")) closeMenu();
    else if (chat.running.length) chat.stop();
    else if (event.target.id === "input") $("scroll").focus();
    else closePanel();
    return;
  }
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || !KEYS[event.key]) return;
  event.preventDefault();
  KEYS[event.key]();
});

const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
document.addEventListener("dragover", (event) => { if (carriesFiles(event)) { event.preventDefault(); $("drop").hidden = false; } });
document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) $("drop").hidden = true; });
document.addEventListener("drop", async (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  $("drop").hidden = true;
  const files = [...event.dataTransfer.files];
  const exports = files.filter((file) => /\.(zip|jsonl?|gz|cix)$/i.test(file.name));
  const others = files.filter((file) => !exports.includes(file));
  if (others.length) composer.add(others);
  if (!exports.length) return;
  const chosen = await dialog("Import conversations?", h("p", {}, `${exports.map((file) => file.name).join(", ")} may hold conversations.`),
    [["Cancel", ""], ["Attach to the message", "attach"], ["Import", "import", "primary"]]);
  if (chosen === "attach") composer.add(exports);
  if (chosen === "import") await importFiles(exports, chat);
});

chat.tabs.addEventListener("message", ({ data }) => { if ((me.user_id || document.querySelector(".login")) && data.user !== undefined && data.user !== whoami()) location.reload(); });
gone.addEventListener("login", () => logIn().then(begin));
window.addEventListener("hashchange", route);
begin();
