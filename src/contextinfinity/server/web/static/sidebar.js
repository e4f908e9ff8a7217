// The list of conversations, newest first, and the search through everything that was said.

import { get } from "./api.js";
import { $, ago, h, number, short, toast } from "./dom.js";

export class Sidebar {
  constructor(chat) {
    Object.assign(this, { chat, threads: new Map(), next: null, query: "" });
    $("search").addEventListener("submit", (event) => { event.preventDefault(); this.search(); });
    $("query").addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.search(), 200); });
    $("query").addEventListener("keydown", (event) => { if (event.key === "Escape") { $("query").value = ""; this.search(); } });
    $("threads-scroll").addEventListener("scroll", () => this.more(), { passive: true });
    $("threads").addEventListener("keydown", (event) => this.walk(event));
    for (const what of ["changed", "answered", "began", "elsewhere"]) {
      chat.addEventListener(what, () => { clearTimeout(this.soon); this.soon = setTimeout(() => this.load(), 80); });
    }
  }

  async load() {
    if (this.query) return this.mark();
    try {
      const { threads, next } = await get("/threads", { limit: 50 });
      this.next = next;
      this.threads = new Map(threads.map((thread) => [thread.thread_id, thread]));
      this.draw();
    } catch (error) {
      if (error.status !== 401 && error.status !== 0) toast(error.told, "error");
    }
  }

  async more() {
    const scroll = $("threads-scroll");
    if (!this.next || this.query || this.loading || scroll.scrollHeight - scroll.scrollTop > 2 * scroll.clientHeight) return;
    this.loading = true;
    try {
      const { threads, next } = await get("/threads", { limit: 50, after: this.next });
      this.next = next;
      for (const thread of threads) this.threads.set(thread.thread_id, thread);
      this.draw();
    } finally {
      this.loading = false;
    }
  }

  draw() {
    const items = [];
    let last = "";
    for (const thread of this.threads.values()) {
      const day = dayOf(thread.updated_at);
      if (day !== last) items.push(h("li", { class: "day" }, last = day));
      items.push(this.item(thread));
    }
    if (!items.length) items.push(h("li", { class: "none" }, "No conversations yet."));
    $("threads").replaceChildren(...items);
    this.mark();
  }

  item(thread) {
    const title = thread.title || thread.opening || thread.said || "Untitled";
    return h("li", {}, h("a", { href: `#/t/${thread.thread_id}`, "data-thread": thread.thread_id },
      h("span", { class: "name" }, short(title, 70)),
      h("span", { class: "facts" }, `${ago(thread.updated_at)} · ${number(thread.turns)} turn${thread.turns === 1 ? "" : "s"}`)));
  }

  mark() {
    for (const link of $("threads").querySelectorAll("a[data-thread]")) {
      if (link.dataset.thread === this.chat.thread?.thread_id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  async search() {
    const query = this.query = $("query").value.trim();
    if (!query) return this.load();
    try {
      const { hits } = await get("/search", { q: query, limit: 30 });
      if (query !== this.query) return;
      await this.nameThreads(hits);
      if (query !== this.query) return;
      const items = hits.map((hit) => h("li", {}, h("a", { href: `#/t/${hit.thread_id}?turn=${hit.turn_seq}&id=${hit.turn_id}`, class: "hit" },
        h("span", { class: "name" }, short(this.titleOf(hit.thread_id), 60)),
        h("span", { class: "passage" }, marked(passage(hit.text, query), query)),
        h("span", { class: "facts" }, `${hit.role} · turn ${hit.turn_seq} · ${ago(hit.created_at)}`))));
      $("threads").replaceChildren(...(items.length ? items : [h("li", { class: "none" }, "Nothing found.")]));
    } catch (error) {
      if (error.status !== 401) toast(error.told, "error");
    }
  }

  async nameThreads(hits) {
    const unknown = [...new Set(hits.map((hit) => hit.thread_id))].filter((id) => !this.threads.has(id));
    const read = await Promise.all(unknown.map((id) => get(`/threads/${id}`).catch(() => null)));
    for (const thread of read) if (thread) this.threads.set(thread.thread_id, thread);
  }

  titleOf(id) {
    const thread = this.threads.get(id);
    return thread?.title || thread?.opening || thread?.said || "Untitled";
  }

  walk(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const links = [...$("threads").querySelectorAll("a")];
    links[links.indexOf(document.activeElement) + step]?.focus();
  }
}

function dayOf(iso) {
  const days = (new Date().setHours(0, 0, 0, 0) - new Date(iso).setHours(0, 0, 0, 0)) / 86400000;
  return days < 0.5 ? "Today" : days < 1.5 ? "Yesterday" : days < 7.5 ? "Last 7 days" : days < 30.5 ? "Last 30 days" : "Earlier";
}

/** Return the part of a text around the first word of the query. */
function passage(text, query) {
  const at = Math.max(0, text.toLowerCase().indexOf(query.toLowerCase().split(/\s+/)[0]) - 40);
  return short((at ? "…" : "") + text.slice(at), 160);
}

/** Return a text as nodes, with the words of the query marked. */
function marked(text, query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word.length > 1);
  const nodes = [], low = text.toLowerCase();
  let at = 0;
  while (at < text.length) {
    const found = words.map((word) => [low.indexOf(word, at), word]).filter(([place]) => place >= 0).sort((a, b) => a[0] - b[0])[0];
    if (!found) break;
    nodes.push(text.slice(at, found[0]), h("mark", {}, text.slice(found[0], found[0] + found[1].length)));
    at = found[0] + found[1].length;
  }
  return [...nodes, text.slice(at)];
}
