// Sending a message and following a turn, through lost connections, reloads and restarts of the server.
//
// A message is sent under an Idempotency-Key and kept in sessionStorage until the server has named its turn: sent again
// after a loss it is accepted once. From then on the turn is followed by its id, each time after the last event seen.

import { Problem, eventsOf, gone, newKey, request } from "./api.js";

const UNSENT = "cix-unsent";
const LONGEST_WAIT = 5000;

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const end = () => { clearTimeout(timer); window.removeEventListener("online", end); signal?.removeEventListener("abort", end); resolve(); };
    const timer = setTimeout(end, milliseconds);
    window.addEventListener("online", end);
    signal?.addEventListener("abort", end);
  });
}

/** Run a stream again and again until its turn ends: `open` starts it after the last event's id. */
async function* untilDone(open, signal) {
  let last = null, wait = 250;
  while (!signal.aborted) {
    try {
      for await (const event of eventsOf(await open(last))) {
        wait = 250;
        last = event.id ?? last;
        yield event;
        if (event.name === "done") return;
        if (event.name === "error" && event.data.code === "token_needed") break;
      }
    } catch (error) {
      if (error.name === "AbortError" || signal.aborted) return;
      if (error instanceof Problem && !error.passes && error.status !== 401) throw error;
    }
    if (signal.aborted) return;
    gone.dispatchEvent(new Event("down"));
    await pause(wait, signal);
    wait = Math.min(wait * 1.7, LONGEST_WAIT);
  }
}

/** Follow a turn from its first event to its end. */
export function follow(threadId, turnId, signal) {
  const path = `/threads/${encodeURIComponent(threadId)}/turns/${encodeURIComponent(turnId)}/stream`;
  return untilDone((last) => request("GET", path, { signal, headers: last ? { "Last-Event-ID": last } : {} }), signal);
}

/** Send a message and follow its turn. The first event is "turn". */
export async function* send(threadId, body, signal, key = newKey()) {
  keep({ threadId, body, key });
  let turn = null;
  const path = `/threads/${encodeURIComponent(threadId)}/messages/stream`;
  const open = (last) => turn
    ? request("GET", `/threads/${turn.thread_id}/turns/${turn.turn_id}/stream`, { signal, headers: last ? { "Last-Event-ID": last } : {} })
    : request("POST", path, { signal, body, headers: { "Idempotency-Key": key } });
  try {
    for await (const event of untilDone(open, signal)) {
      if (event.name === "turn") {
        turn = event.data;
        keep(null);
      }
      yield event;
    }
  } catch (error) {
    keep(null);
    throw error;
  }
}

function keep(message) {
  try {
    if (message) sessionStorage.setItem(UNSENT, JSON.stringify(message));
    else sessionStorage.removeItem(UNSENT);
  } catch { /* too large for the storage: then only a reload within the first milliseconds loses it */ }
}

/** Return the message that a reload interrupted before the server had named its turn. */
export function unsent() {
  try {
    return JSON.parse(sessionStorage.getItem(UNSENT));
  } catch {
    return null;
  }
}
