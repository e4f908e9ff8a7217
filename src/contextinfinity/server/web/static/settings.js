// Settings of this browser, the login, import and export.

import { get, me, post, request } from "./api.js";
import { $, dialog, h, toast } from "./dom.js";

const NAME = "cix-settings";
const DEFAULTS = { theme: "system", enterSends: true, useMemory: true, useRewriter: true, mayAskBack: true, model: "" };

export const SHORTCUTS = [
  ["/", "Search all conversations"],
  ["n", "New conversation"],
  ["i", "Go to the message box"],
  ["j, k", "Next and previous turn"],
  ["e", "Edit the focused turn on a new branch"],
  ["r", "Regenerate the focused turn's answer"],
  ["w", "What the model saw in the focused turn"],
  ["b", "Branches"],
  ["m", "Memory"],
  ["Esc", "Stop the answer, or close what is open"],
  ["?", "This list"],
];

/** Read the settings; each change is kept at once. */
export function loadSettings() {
  let kept = {};
  try { kept = JSON.parse(localStorage.getItem(NAME)) ?? {}; } catch { /* unreadable: the defaults */ }
  const values = { ...DEFAULTS, ...kept };
  document.documentElement.dataset.theme = values.theme;
  return new Proxy(values, {
    set(target, name, value) {
      target[name] = value;
      if (name === "theme") document.documentElement.dataset.theme = value;
      try { localStorage.setItem(NAME, JSON.stringify(target)); } catch { /* private mode */ }
      return true;
    },
  });
}

function check(settings, name, label) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", checked: settings[name], onchange: (event) => { settings[name] = event.target.checked; } }), label);
}

export async function showSettings(settings, chat) {
  const health = await get("/healthz").catch(() => null);
  const theme = h("select", { id: "theme", onchange: () => { settings.theme = theme.value; } },
    ["system", "light", "dark"].map((name) => h("option", { value: name, selected: settings.theme === name }, name)));
  dialog("Settings", [
    h("h3", {}, "Appearance"), h("label", { class: "line" }, "Theme ", theme), check(settings, "enterSends", "Enter sends, Shift+Enter begins a line"),
    h("h3", {}, "Answers"), check(settings, "useMemory", "Use memories"), check(settings, "useRewriter", "Make follow-up questions explicit"),
    check(settings, "mayAskBack", "May ask back when a reference is ambiguous"),
    h("h3", {}, "Conversations"),
    h("div", { class: "row" },
      h("button", { type: "button", "data-icon": "upload", onclick: () => chooseImport(chat) }, "Import…"),
      chat.thread ? h("a", { class: "button", href: exportPath(chat.thread.thread_id, "markdown"), download: "" }, "Export this as Markdown") : null,
      chat.thread ? h("a", { class: "button", href: exportPath(chat.thread.thread_id, "cix"), download: "" }, "Export this") : null,
      h("a", { class: "button", href: exportPath(null, "cix"), download: "" }, "Export all")),
    h("p", { class: "facts" }, "Import takes exports of ContextInfinity, ChatGPT and Claude and files of messages; dropping a file on the page does the same."),
    h("p", { class: "facts" }, health ? `ContextInfinity ${health.version} · ${health.status} ${health.reasons.join("; ")}` : "The server cannot be reached."),
    me.has_token ? h("button", { type: "button", onclick: () => logOut(chat) }, `Log out ${me.user_id}`) : null,
  ]);
}

export function showShortcuts() {
  dialog("Keyboard shortcuts", h("dl", { class: "keys" }, SHORTCUTS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])));
}

export function exportPath(threadId, format) {
  return `/export?${new URLSearchParams({ ...(threadId ? { thread_id: threadId } : {}), format })}`;
}

export function chooseImport(chat) {
  const file = h("input", { type: "file", multiple: true, onchange: () => importFiles([...file.files], chat) });
  file.click();
}

export async function importFiles(files, chat) {
  for (const file of files) {
    try {
      const response = await request("POST", "/import", { raw: file, headers: { "content-type": "application/octet-stream" } });
      const { sessions } = await response.json();
      const sum = (name) => sessions.reduce((total, one) => total + (one[name] ?? 0), 0);
      const left = sessions.reduce((total, one) => total + (one.bad ?? []).reduce((all, record) => all + record.count, 0), 0);
      toast(`${file.name}: ${sessions.length} conversation${sessions.length === 1 ? "" : "s"}, ${sum("added")} messages added, ${sum("skipped")} there before${left ? `, ${left} unreadable` : ""}.`);
      if (sessions.length === 1) location.hash = `#/t/${sessions[0].thread_id}`;
    } catch (error) {
      toast(`${file.name}: ${error.told ?? error.message}`, "error");
    }
  }
  chat.changed("elsewhere");
}

async function logOut(chat) {
  await post("/logout").catch(() => {});
  chat.tell({ user: null });
  location.reload();
}

/** Ask for a token until the server takes one. */
let asking = null;
export function logIn() {
  asking ??= new Promise((resolve) => {
    const token = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, class: "wide" });
    const told = h("p", { class: "wrong", role: "alert" });
    const made = h("dialog", { class: "login", "aria-labelledby": "login-title", oncancel: (event) => event.preventDefault() },
      h("form", { onsubmit: async (event) => {
        event.preventDefault();
        try {
          await post("/login", { token: token.value.trim() }, { quiet: true });
          made.close();
          made.remove();
          asking = null;
          resolve();
        } catch (error) {
          told.textContent = error.told;
        }
      } },
      h("h2", { id: "login-title" }, "Log in"),
      h("p", {}, "This server needs a token. Create one with ", h("code", {}, "cix token create --user NAME"), "."),
      h("label", { for: "token" }, "Token"), token, told,
      h("div", { class: "row end" }, h("button", { type: "submit", class: "primary" }, "Log in"))));
    document.body.append(made);
    made.showModal();
    $("token").focus();
  });
  return asking;
}
