// Requests to our own origin. The token is in this tab's sessionStorage, and in no cookie: no other site can send it.

const KEY = "kubedelta-token";
const LARGEST_BODY = 256 * 1024;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

export function headers(given = token.get()) {
  return given ? { Authorization: `Bearer ${given}` } : {};
}

export async function refusal(answer) {
  const text = await answer.text();
  try {
    return new Refused(answer.status, JSON.parse(text).error ?? text);
  } catch {
    return new Refused(answer.status, text.trim() || answer.statusText);
  }
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", credentials: "omit", redirect: "error", ...options });
  } catch (error) {
    throw new Refused(0, "the bridge does not answer");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

export async function get(path, given) {
  return (await ask(path, { headers: headers(given) })).json();
}

export async function post(path, value) {
  const body = JSON.stringify(value);
  return (await ask(path, { method: "POST", body, headers: { ...headers(), "Content-Type": "application/json" } })).json();
}

// A body, of which the bridge sends no more than this.
export async function text(path) {
  const answer = await ask(path, { headers: headers() });
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let found = "";
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text: found + decoder.decode(), cut: false };
    size += value.length;
    found += decoder.decode(value, { stream: true });
    if (size >= LARGEST_BODY) {
      await reader.cancel();
      return { text: found.slice(0, LARGEST_BODY), cut: true };
    }
  }
}
