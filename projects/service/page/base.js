"use strict";
// What the page knows, and how it asks the service.
// Everything that comes from the service or from the text is put in as text, never as HTML.
const byId = (id) => document.getElementById(id);
const state = {
  document: null, // the one that is open; none for a text to try
  text: "", // as it was linked
  found: [], // what the pipeline found in it
  draft: null, // a mention that somebody selects, until it is confirmed
  mentions: [], // all that is shown, in order, and the elements that show it
  elements: [],
  chosen: -1,
  led: -1, // the last mention that the list of concepts led to
  gold: new Map(), // of each text, confirmed spans, withdrawn places that the service has yet to forget, what it keeps, and how often it said so
  undo: [], // what takes the last corrections of this text back
  lookUps: new Map(), // candidates by their words
  keeps: false, // whether the service keeps corrections
  isLooking: false, // whether the page asks for the corrections of others
  told: [""], // what the page says when the service has answered: the latest message, also one of meanwhile
  // Each ends when the service has answered: to corrections of texts, of all documents and rules, and to states of documents.
  saving: Promise.resolve(),
  ruling: Promise.resolve(),
  marking: Promise.resolve(),
  turn: 0,
  token: "", // of whoever works here, if the service needs one
  asking: null, // ends when somebody has given a token
  team: null, // who works here, and with whom
};
const CONTEXTS = ["negated", "uncertain", "family", "historical", "hypothetical"];
const LONGEST_MENTION = 200; // in characters
const SECONDS = 5; // between two looks for the corrections of others

const nameOf = (span) => `${span.start}-${span.end}`;
const overlap = (one, other) => one.start < other.end && other.start < one.end;
const percent = (share) => `${Math.round(100 * Math.max(0, Math.min(1, share)))}%`;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

async function ask(path, body) {
  const { token } = state;
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const post = { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, body ? post : { headers }).catch(() => {
    throw new Error("The service does not answer. Is it running?");
  });
  if (response.status === 401) return askToken(token).then(() => ask(path, body));
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.error || `${response.status} ${response.statusText}`), { status: response.status, columns: answer.columns });
  return answer;
}

function queue(line, act) {
  // One request after the other, also behind one that fails, so that the last one counts.
  const answer = state[line].then(act);
  state[line] = answer.catch(() => null);
  return answer;
}

function say(text, isError = false) {
  state.told = [text, isError];
  byId("message").textContent = text;
  byId("message").className = isError ? "error" : "";
}
