// The message box: text, attached files and images, the model, send and stop.

import { get } from "./api.js";
import { $, h, toast } from "./dom.js";

const IMAGES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MOST_BYTES = 10_000_000;
const DRAFT = "cix-draft";

export class Composer {
  constructor(chat, settings) {
    Object.assign(this, { chat, settings, files: [] });
    this.input = $("input");
    $("composer").addEventListener("submit", (event) => { event.preventDefault(); this.send(); });
    this.input.addEventListener("input", () => { this.fit(); this.keep(); });
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("paste", (event) => {
      const files = [...event.clipboardData.files];
      if (files.length) { event.preventDefault(); this.add(files); }
    });
    $("attach").addEventListener("click", () => $("files").click());
    $("files").addEventListener("change", () => { this.add([...$("files").files]); $("files").value = ""; });
    $("stop").addEventListener("click", () => chat.stop());
    $("model").addEventListener("change", () => { settings.model = $("model").value; });
    chat.addEventListener("running", () => this.buttons());
    chat.addEventListener("changed", () => { this.buttons(); this.restore(); });
    chat.addEventListener("unsent", (event) => { if (!this.input.value) { this.input.value = event.detail; this.fit(); } });
  }

  async models() {
    const { models } = await get("/models");
    const known = models.includes(this.settings.model) ? this.settings.model : "";
    $("model").replaceChildren(h("option", { value: "" }, `${models[0] ?? "default"} (default)`),
      ...models.slice(1).map((name) => h("option", { value: name }, name)));
    $("model").value = known;
  }

  key(event) {
    const sends = this.settings.enterSends ? event.key === "Enter" && !event.shiftKey : event.key === "Enter" && (event.ctrlKey || event.metaKey);
    if (sends && !event.isComposing) { event.preventDefault(); this.send(); }
  }

  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${Math.min(this.input.scrollHeight, innerHeight * 0.4)}px`;
  }

  /** Keep what is being written, for each conversation: a reload loses nothing. */
  keep() {
    const drafts = this.drafts();
    const name = this.chat.id ?? "new";
    if (name !== "new" && this.keptFor === this.chat.place) delete drafts.new;
    this.keptFor = this.chat.place;
    if (this.input.value) drafts[name] = this.input.value;
    else delete drafts[name];
    try { sessionStorage.setItem(DRAFT, JSON.stringify(drafts)); } catch { /* full */ }
  }

  drafts() {
    try { return JSON.parse(sessionStorage.getItem(DRAFT)) ?? {}; } catch { return {}; }
  }

  /** Show the draft of the conversation that was opened; one that a message just began keeps what is being written. */
  restore() {
    const { place } = this.chat;
    if (this.place === place) return;
    this.place = place;
    this.input.value = this.drafts()[place.id ?? "new"] ?? "";
    this.fit();
  }

  async add(files) {
    for (const file of files) {
      if (file.size > MOST_BYTES) toast(`${file.name} is larger than 10 MB.`, "error");
      else if (IMAGES.includes(file.type)) this.files.push({ name: file.name, type: file.type, url: await dataUrl(file) });
      else {
        const text = await file.text();
        if (text.includes("\u0000") || text.includes("\ufffd")) toast(`${file.name} is neither text nor an image (PNG, JPEG, GIF, WebP).`, "error");
        else this.files.push({ name: file.name, text });
      }
    }
    this.drawFiles();
    this.input.focus();
  }

  drawFiles() {
    $("attachments").replaceChildren(...this.files.map((file, index) => h("li", {},
      file.url ? h("img", { src: file.url, alt: "" }) : null, h("span", {}, file.name),
      h("button", { type: "button", "aria-label": `Remove ${file.name}`, onclick: () => { this.files.splice(index, 1); this.drawFiles(); } }, "×"))));
  }

  buttons() {
    $("stop").hidden = !this.chat.running.length;
    $("send").textContent = this.chat.aside ? "Send here" : "Send";
  }

  async send() {
    const text = [this.input.value.trim(), ...this.files.filter((file) => file.text !== undefined)
      .map((file) => `${file.name}:\n${file.text.trimEnd()}`)].filter(Boolean).join("\n\n");
    const images = this.files.filter((file) => file.url);
    if (!text && !images.length) return;
    const content = images.length ? [{ type: "text", text: text || "See the image." }, ...images.map((file) => (
      { type: "image", media_type: file.type, source: { type: "base64", data: file.url.split(",")[1] } }))] : text;
    this.files = [];
    this.input.value = "";
    this.keep();
    this.drawFiles();
    this.fit();
    await this.chat.say(content, { text, pictures: images.map((file) => file.url) });
  }
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}
