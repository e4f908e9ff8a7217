// The open conversation: its turns, what is being answered, and what is done to it.
//
// What changes a conversation, or which branch of it is shown, runs in one queue per conversation, in the order in which
// it was asked for, also when another conversation is open by then. A message is sent to the branch that is shown when
// its place in the queue comes; when something queued before it fails, it goes back to the message box.

import { Problem, gone, get, post, rendered, request } from "./api.js";
import { $, announce, confirm, copy, toast } from "./dom.js";
import { Feed } from "./feed.js";
import { follow, send } from "./live.js";
import { drawAnswer, turnRow } from "./turn.js";

const PAGE = 40;
const POLL = 4000;

export class Chat extends EventTarget {
  constructor(settings) {
    super();
    this.settings = settings;
    this.following = new Map();
    this.places = new Map();
    this.feed = new Feed($("scroll"), $("feed"), $("window"), {
      build: (seq) => turnRow(this.turns.get(seq), (...what) => this.act(...what), this.versions(seq)),
      want: (first, last) => this.want(first, last),
      atEnd: (is) => { $("to-end").hidden = is || !this.feed.count; },
    });
    this.tabs = new BroadcastChannel("cix");
    this.tabs.addEventListener("message", (event) => this.heard(event.data));
    $("to-end").addEventListener("click", () => this.feed.toEnd());
    setInterval(() => { if (!document.hidden) this.look(); }, POLL);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.look(); });
    this.clear();
  }

  /** Show no conversation: the next message begins one. */
  clear() {
    this.leave();
    this.place = { id: null, branch: null, tail: Promise.resolve(), waiting: 0 };
    Object.assign(this, { thread: null, branches: [], viewed: null, turns: new Map(), pages: new Map() });
    this.feed.reset(0);
    $("empty").hidden = false;
    this.changed();
  }

  /** Run `work(place)` after everything that was queued for the open conversation; if some of that fails, fail too. */
  queued(work) {
    const { place } = this;
    place.waiting++;
    const run = place.tail.then(() => work(place));
    place.tail = run;
    const ended = () => { if (!--place.waiting) place.tail = Promise.resolve(); };
    run.then(ended, ended);
    return run;
  }

  /** Stop following turns of the conversation that was open; they go on without a reader. */
  leave() {
    for (const [turn, controller] of this.following) if (turn.turn_id) controller.abort();
    this.following.clear();
    this.opening = (this.opening ?? 0) + 1;
  }

  get id() {
    return this.place.id;
  }

  get path() {
    return pathOf(this.place);
  }

  /** The branch that is shown, if it is not the active one. */
  get aside() {
    return this.viewed && this.viewed !== this.thread?.branch_id ? this.viewed : null;
  }

  get branch() {
    return this.branches.find((one) => one.branch_id === (this.viewed ?? this.thread?.branch_id)) ?? null;
  }

  /** Return the branches that part at a turn, oldest first, and which of them is shown; null if there is only one. */
  versions(seq) {
    if (this.branches.length < 2) return null;
    const byId = new Map(this.branches.map((one) => [one.branch_id, one]));
    const climb = (one, until) => { while (one?.parent_id && one.fork_seq >= until) one = byId.get(one.parent_id); return one; };
    const own = climb(this.branch, seq), base = climb(own, seq - 1);
    const all = this.branches.filter((one) => one.last_turn_seq >= seq && (one === base || one.fork_seq === seq - 1) && climb(one, seq - 1) === base);
    return all.length > 1 ? { all, at: all.indexOf(own) } : null;
  }

  get running() {
    return [...this.turns.values()].filter((turn) => turn.running);
  }

  changed(what = "changed") {
    this.dispatchEvent(new Event(what));
  }

  async open(id, { branch = null, at = null } = {}) {
    if (id === this.id && branch === this.viewed && this.thread) {
      if (at) this.feed.show(at, true);
      return;
    }
    if (id !== this.id) {
      this.clear();
      this.place = this.places.get(id) ?? { ...this.place, id };
      this.places.set(id, this.place);
    }
    await this.queued((place) => this.show(place, branch, at));
  }

  /** Read and show a branch of a conversation, unless another conversation was opened meanwhile. */
  async show(place, branch = null, at = null) {
    if (place !== this.place) return;
    this.leave();
    const mine = this.opening;
    const [thread, { branches }] = await Promise.all([get(this.path), get(`${this.path}/branches`)]);
    if (mine !== this.opening) return;
    place.branch = branch ?? thread.branch_id;
    Object.assign(this, { viewed: branch, turns: new Map(), pages: new Map(), thread, branches });
    this.feed.reset(this.branch?.last_turn_seq ?? thread.turns, at);
    $("empty").hidden = this.feed.count > 0;
    this.changed();
    await this.want(Math.max(1, this.feed.count), this.feed.count);
    if (at) this.feed.show(at, true);
  }

  /** Load the pages of these turns, unless they are there. */
  want(first, last) {
    if (!this.id) return Promise.resolve();
    const loads = [];
    for (let page = Math.floor((first - 1) / PAGE); page <= Math.floor((last - 1) / PAGE); page++) {
      if (!this.pages.has(page)) this.pages.set(page, this.load(page));
      loads.push(this.pages.get(page));
    }
    return Promise.all(loads);
  }

  async load(page) {
    const mine = this.opening;
    const end = Math.min((page + 1) * PAGE, this.feed.count);
    if (end <= page * PAGE) return;
    try {
      const query = { limit: 2 * (end - page * PAGE), before: end + 1, branch_id: this.aside };
      const { messages } = await get(`${this.path}/messages`, query);
      if (mine !== this.opening) return;
      const read = [];
      for (const message of messages) {
        const seq = message.turn_seq;
        if (message.role === "user") {
          const old = this.turns.get(seq);
          if (old?.running || (old && old.turn_id === message.turn_id && old.outcome)) continue;
          this.turns.set(seq, { seq, thread_id: this.thread.thread_id, ...message, user: message.content });
          read.push(seq);
        } else if (read.includes(seq)) {
          const { model, usage, error, outcome, content } = message;
          Object.assign(this.turns.get(seq), { model, usage, error, outcome, text: content, shown: 0 });
          if ((outcome && outcome !== "completed") || message.tool_calls) this.loadTools(this.turns.get(seq));
        }
      }
      const shown = read.map((seq) => this.turns.get(seq));
      const made = await Promise.all(shown.map((turn) => (turn.outcome ? rendered(turn.text) : null)));
      if (mine !== this.opening) return;
      shown.forEach((turn, index) => {
        if (turn.outcome) Object.assign(turn, { html: made[index], shown: turn.text.length });
      });
      this.feed.refresh(...read);
      for (const turn of shown) if (!turn.outcome) this.join(turn);
      this.changed("loaded");
    } catch (error) {
      this.pages.delete(page);
      if (!(error instanceof Problem)) throw error;
      if (error.status !== 401) toast(error.told, "error");
    }
  }

  /** Read the tool calls of a turn, with the results that are there. */
  async loadTools(turn) {
    const { calls } = await get(`/threads/${turn.thread_id}/turns/${turn.turn_id}`).catch(() => ({ calls: [] }));
    if (!calls.length) return;
    turn.tools = calls;
    this.update(turn);
  }

  /** Look whether something was said elsewhere: in another tab, on another device. */
  async look() {
    if (!this.thread || this.running.length || this.place.waiting) return;
    await this.queued((place) => this.compare(place).catch((error) => {
      if (error.status === 404 && place === this.place) { this.clear(); location.hash = "#/"; }
    }));
  }

  async compare(place) {
    const mine = this.opening;
    const [thread, { branches }] = await Promise.all([get(pathOf(place)), get(`${pathOf(place)}/branches`)]);
    if (mine !== this.opening || this.running.length) return;
    if (thread.branch_id !== this.thread.branch_id && !this.viewed) return this.show(place);
    const isSame = JSON.stringify(branches) === JSON.stringify(this.branches) && thread.title === this.thread.title;
    Object.assign(this, { thread, branches });
    if (isSame) return;
    this.grow(this.branch?.last_turn_seq ?? thread.turns);
    const parting = new Set(branches.map((one) => one.fork_seq + 1));
    this.feed.refresh(...[...parting].filter((seq) => !this.turns.get(seq)?.editing));
    this.changed();
  }

  grow(count) {
    const before = this.feed.count;
    if (count === before) return;
    for (let page = Math.floor(Math.max(0, before - 1) / PAGE); page <= Math.floor(count / PAGE); page++) this.pages.delete(page);
    for (let seq = count + 1; seq <= before; seq++) this.turns.delete(seq);
    this.feed.resize(count);
    $("empty").hidden = count > 0;
  }

  heard({ thread, deleted }) {
    if (thread === this.thread?.thread_id && !deleted) this.look();
    this.changed("elsewhere");
  }

  tell(more = {}) {
    this.tabs.postMessage({ thread: this.thread?.thread_id, ...more });
  }

  /** Say something on the branch that is shown once everything queued before is done. */
  async say(content, options = {}) {
    try {
      await this.queued((place) => this.deliver(place, content, options));
    } catch (error) {
      this.unsent(options.text ?? content);
      toast(`Not sent: ${error.told ?? error.message}`, "error");
    }
  }

  /** Send the message that a reload interrupted. */
  resend({ body, key }) {
    return this.queued((place) => this.transmit(place, body, { key }));
  }

  unsent(text) {
    this.dispatchEvent(new CustomEvent("unsent", { detail: text }));
  }

  deliver(place, content, { retryOf = null, ...options } = {}) {
    const { settings } = this;
    return this.transmit(place, {
      content, branch_id: place.branch, model: settings.model || null, use_memory: settings.useMemory,
      use_query_rewriter: settings.useRewriter, may_ask_back: settings.mayAskBack, retry_of: retryOf,
    }, options);
  }

  /** Send a message and follow its turn; the promise resolves once the server has named the turn or refused it. */
  transmit(place, body, { key, pictures = [], text = null }) {
    const said = text ?? (typeof body.content === "string" ? body.content : body.content.filter((one) => one.type === "text").map((one) => one.text).join(""));
    const turn = { seq: this.feed.count + 1, user: said, images: pictures.length, pictures, text: "", running: true, status: "sending" };
    const controller = new AbortController();
    const mine = place === this.place ? this.opening : -1;
    if (mine === this.opening) {
      this.turns.set(turn.seq, turn);
      $("empty").hidden = true;
      this.feed.resize(turn.seq);
      this.feed.toEnd();
      this.following.set(turn, controller);
      this.changed("running");
    }
    return new Promise((named) => {
      const first = (data) => { Object.assign(place, { id: data.thread_id, branch: data.branch_id }); this.places.set(place.id, place); named(); };
      this.hear(turn, send(place.id ?? "new", body, controller.signal, key), mine, first).catch((error) => {
        Object.assign(turn, { running: false, status: null, outcome: "failed", error: { message: error.message, hint: error.hint } });
        if (mine === this.opening) this.update(turn);
        else toast(`Not sent: ${error.told ?? error.message}`, "error");
        this.unsent(said);
      }).finally(() => {
        named();
        this.following.delete(turn);
        if (mine === this.opening) this.changed("running");
      });
    });
  }

  /** Follow a turn that runs already: after a reload, or one of another tab. */
  async join(turn) {
    if (turn.running) return;
    const mine = this.opening, controller = new AbortController();
    Object.assign(turn, { running: true, text: "", html: null, shown: 0 });
    this.following.set(turn, controller);
    this.changed("running");
    try {
      await this.hear(turn, follow(turn.thread_id, turn.turn_id, controller.signal), mine);
    } catch (error) {
      turn.running = false;
      toast(error.told ?? String(error), "error");
    } finally {
      this.following.delete(turn);
      if (mine === this.opening) this.changed("running");
    }
  }

  async hear(turn, events, mine, named = () => {}) {
    let drawing = null, last = 0;
    const render = async () => {
      const begun = performance.now(), { text } = turn;
      const html = await rendered(text).catch(() => null);
      last = performance.now() - begun;
      if (html !== null && turn.running) {
        Object.assign(turn, { html, shown: text.length });
        this.draw(turn);
      }
      if (turn.running && turn.text.length > text.length) drawing = setTimeout(render, Math.max(150, 5 * last));
      else drawing = null;
    };
    for await (const { name, data } of events) {
      if (name === "turn") named(data);
      if (mine !== this.opening) return;
      if (name === "turn") this.begun(turn, data);
      else if (name === "step") Object.assign(turn, { model: data.model, status: turn.text ? null : "answering" });
      else if (name === "delta") {
        turn.text += data.text;
        turn.status = null;
        drawing ??= setTimeout(render, 60);
      } else if (name === "tool") turn.tools = withCall(turn.tools ?? [], data);
      else if (name === "retry") turn.status = `${data.reason}; trying again`;
      else if (name === "clarification") turn.candidates = data.candidates;
      else if (name === "durability") turn.durable = data;
      else if (name === "error") turn.error = data;
      else if (name === "done") {
        clearTimeout(drawing);
        Object.assign(turn, data, { running: false, status: null, seq: data.turn_seq ?? turn.seq });
        turn.html = await rendered(turn.text).catch(() => null);
        turn.shown = turn.html === null ? 0 : turn.text.length;
        this.update(turn);
        announce(`Answer ${turn.outcome}.`);
        this.tell();
        this.changed("answered");
        this.look();
        continue;
      }
      if (name === "delta") this.draw(turn);
      else this.update(turn);
    }
  }

  begun(turn, data) {
    const isNew = !this.thread;
    Object.assign(turn, { turn_id: data.turn_id, thread_id: data.thread_id, branch_id: data.branch_id, status: "waiting" });
    if (isNew) {
      this.thread = { thread_id: data.thread_id, branch_id: data.branch_id, title: null, opening: turn.user, turns: 1 };
      this.branches = [{ branch_id: data.branch_id, last_turn_seq: 1, active: true, fork_seq: 0, parent_id: null }];
      history.replaceState(null, "", `#/t/${data.thread_id}`);
      this.changed();
    } else if (data.turn_seq && data.turn_seq !== turn.seq) {
      this.turns.delete(turn.seq);
      turn.seq = data.turn_seq;
      this.grow(data.turn_seq);
      this.turns.set(turn.seq, turn);
    }
    this.tell();
    this.changed("began");
  }

  draw(turn) {
    const row = this.feed.row(turn.seq);
    if (row?.answer && this.turns.get(turn.seq) === turn) {
      if (row.querySelector(".status")) this.update(turn);
      else drawAnswer(row.answer, turn);
    }
  }

  update(turn) {
    if (this.turns.get(turn.seq) === turn) this.feed.refresh(turn.seq);
  }

  async stop() {
    await Promise.all(this.running.filter((turn) => turn.turn_id).map((turn) =>
      post(`/threads/${turn.thread_id}/turns/${turn.turn_id}/cancel`).catch((error) => toast(error.told, "error"))));
  }

  /** Do what a button of a turn says. */
  async act(name, turn, value) {
    try {
      await this[`do_${name}`](turn, value);
    } catch (error) {
      toast(error.told ?? error.message, "error");
    }
  }

  async do_copy(turn) {
    await copy(turn.text);
  }

  do_edit(turn) {
    turn.editing = true;
    this.update(turn);
  }

  do_unedit(turn) {
    turn.editing = false;
    this.update(turn);
    this.feed.row(turn.seq)?.focus();
  }

  async do_edited(turn, text) {
    turn.editing = false;
    this.update(turn);
    await this.answerAgain(turn, text).catch((error) => { this.unsent(text); throw error; });
  }

  do_regenerate(turn) {
    return this.answerAgain(turn, turn.user);
  }

  /** Send a turn's message, or other words with its images, on a new branch that begins before it. */
  answerAgain(turn, text) {
    return this.queued(async (place) => {
      const content = await this.again(turn, text);
      await this.branchOff(place, turn.seq - 1);
      await this.deliver(place, content, { text, pictures: this.picturesOf(turn) });
    });
  }

  async do_retry(turn) {
    await this.say(await this.again(turn, turn.user), { retryOf: turn.turn_id, text: turn.user, pictures: this.picturesOf(turn) });
  }

  async do_fork(turn) {
    await this.queued((place) => this.branchOff(place, turn.seq));
    toast("A new branch begins here; the old one stays.");
  }

  async do_rollback(turn) {
    if (!(await confirm("Roll back?", `The conversation goes on after turn ${turn.seq}, on a new branch. The old line stays.`, "Roll back"))) return;
    await this.queued(async (place) => {
      const made = await post(`${pathOf(place)}/rollback`, { to: turn.seq, branch_id: place.branch });
      await this.moved(place, made.branch_id);
    });
  }

  async do_pin(turn) {
    const chosen = String(getSelection()).trim() || turn.user;
    await post(`${this.path}/pins`, { fact: chosen, branch_id: this.aside });
    toast("Pinned: every prompt of this branch holds it.");
    this.changed("pinned");
  }

  do_version(turn, branch) {
    const query = new URLSearchParams({ ...(branch.active ? {} : { branch: branch.branch_id }), turn: turn.seq });
    location.hash = `#/t/${this.id}?${query}`;
  }

  do_inspect(turn) {
    this.dispatchEvent(new CustomEvent("inspect", { detail: turn }));
  }

  async do_answer(turn, name) {
    turn.candidates = null;
    this.update(turn);
    await this.say(name);
  }

  picturesOf(turn) {
    return Array.from({ length: turn.images ?? 0 }, (_, index) => turn.pictures?.[index] ?? `/threads/${turn.thread_id}/turns/${turn.turn_id}/images/${index + 1}`);
  }

  /** Return a message's content with other words: its images are sent again. */
  async again(turn, text) {
    const images = await Promise.all(this.picturesOf(turn).map(async (address) => {
      const blob = await (await fetch(address)).blob();
      const data = await new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result.split(",")[1]);
        reader.readAsDataURL(blob);
      });
      return { type: "image", media_type: blob.type, source: { type: "base64", data } };
    }));
    return images.length ? [{ type: "text", text }, ...images] : text;
  }

  /** Start a branch after a turn and go on there. */
  async branchOff(place, seq) {
    const made = await post(`${pathOf(place)}/fork`, { at: seq, branch_id: place.branch });
    await this.switchTo(place, made.branch_id);
  }

  /** Make a branch the active one and show it. */
  activate(branchId) {
    return this.queued((place) => this.switchTo(place, branchId));
  }

  async switchTo(place, branchId) {
    await post(`${pathOf(place)}/branches`, { active: branchId });
    await this.moved(place, branchId);
  }

  async moved(place, branchId) {
    place.branch = branchId;
    if (place !== this.place) return;
    if (location.hash !== `#/t/${place.id}`) history.replaceState(null, "", `#/t/${place.id}`);
    await this.show(place);
    this.tell();
  }

  async rename(title) {
    this.thread = await (await request("PATCH", this.path, { body: { title: title || null } })).json();
    this.changed();
    this.tell();
  }

  async remove() {
    await request("DELETE", this.path);
    this.tell({ deleted: true });
    this.clear();
    location.hash = "#/";
  }
}

/** Return the calls with one added, or with its result where the call is there already. */
function withCall(calls, call) {
  const old = calls.find((one) => one.call_id === call.call_id);
  return old ? calls.map((one) => (one === old ? { ...call, arguments: call.arguments ?? old.arguments } : one)) : [...calls, call];
}

function pathOf(place) {
  return `/threads/${encodeURIComponent(place.id)}`;
}

gone.addEventListener("up", () => { $("connection").textContent = ""; });
gone.addEventListener("down", () => { $("connection").textContent = "reconnecting…"; });
