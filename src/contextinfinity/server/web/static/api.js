// Requests to the server: JSON, problem documents (RFC 9457) and server-sent events.

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `HTTP ${status}`);
    Object.assign(this, { status, code: document.code ?? "", hint: document.hint ?? "" });
  }

  get told() {
    return this.hint ? `${this.message} ${this.hint}` : this.message;
  }

  /** Whether the same request may succeed later. */
  get passes() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

/** Who the page shows: the server refuses requests of this page once another user has logged in. */
export const me = { user_id: null, org_id: "", has_token: false };

export const gone = new EventTarget();
/** Fires "login" when the server wants a token, "up" and "down" as the connection comes and goes. */

function withQuery(path, query) {
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}

/** Send a request and return the response; throw a Problem for any other status than 2xx. Status 0: no connection. */
export async function request(method, path, { body, raw, query, headers, signal, quiet } = {}) {
  const sent = { ...headers };
  if (body !== undefined) sent["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(withQuery(path, { user_id: me.user_id, ...query }), {
      method, headers: sent, signal, body: raw ?? (body === undefined ? undefined : JSON.stringify(body)),
      credentials: "same-origin", cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    gone.dispatchEvent(new Event("down"));
    throw new Problem(0, { detail: "The server cannot be reached." });
  }
  gone.dispatchEvent(new Event("up"));
  if (response.ok) return response;
  const problem = new Problem(response.status, await response.json().catch(() => ({})));
  if (response.status === 401 && !quiet) gone.dispatchEvent(new Event("login"));
  if (problem.code === "not_yours") location.reload();
  throw problem;
}

export async function call(method, path, options) {
  return (await request(method, path, options)).json();
}

export const get = (path, query, options) => call("GET", path, { query, ...options });
export const post = (path, body = {}, options) => call("POST", path, { body, ...options });

/** Render markdown on the server; texts that are asked for in one frame share a request. */
let waiting = null;
export function rendered(text) {
  if (!text) return Promise.resolve("");
  if (!waiting) {
    waiting = { texts: [], made: null };
    waiting.made = new Promise((resolve) => setTimeout(resolve, 4)).then(() => {
      const { texts } = waiting;
      waiting = null;
      return renderAll(texts);
    });
  }
  const place = waiting.texts.push(text) - 1;
  return waiting.made.then((all) => all[place]);
}

const MOST = 300000;
async function renderAll(texts) {
  const made = [];
  for (let from = 0; from < texts.length;) {
    let to = from, size = 0;
    while (to < texts.length && (to === from || (size + texts[to].length < MOST && to - from < 100))) size += texts[to++].length;
    made.push(...(await post("/render", { texts: texts.slice(from, to) })).html);
    from = to;
  }
  return made;
}

/** Read the events of a stream: {name, data, id}. */
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (held + value).split("\n\n");
      held = blocks.pop();
      for (const block of blocks) {
        const event = { name: "", data: null, id: null };
        for (const line of block.split("\n")) {
          const at = line.indexOf(": ");
          const field = line.slice(0, at);
          const told = line.slice(at + 2);
          if (field === "event") event.name = told;
          else if (field === "data") event.data = JSON.parse(told);
          else if (field === "id") event.id = told;
        }
        if (event.name) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Return a unique id; randomUUID exists on https and loopback only. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
