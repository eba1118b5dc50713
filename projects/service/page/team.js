"use strict";
// The token of whoever works here, the team's progress, and where annotators disagree.
const TOKEN = /^[\w-]+$/;
const WRONG = "This token does not count, or no more.";
const AROUND = 60; // characters of a text before and behind a place
let teamTurn = 0; // counts what is asked for, so that a late answer is not shown

function readToken() {
  // The address gives it once, and the browser keeps it until the tab is closed. No address that is sent has it.
  const parts = new URLSearchParams(location.hash.slice(1));
  if (parts.has("token")) {
    keepToken(parts.get("token").trim());
    parts.delete("token");
    history.replaceState(null, "", `${location.pathname}${location.search}${parts.size ? `#${parts}` : ""}`);
  }
  state.token = sessionStorage.getItem("token") || "";
}

function keepToken(token) {
  state.token = TOKEN.test(token) ? token : "";
  if (state.token) sessionStorage.setItem("token", token);
  else sessionStorage.removeItem("token");
}

function askToken(used) {
  // All requests that wait go on with the token that somebody gives.
  if (state.token !== used) return Promise.resolve();
  state.asking ||= new Promise((resolve) => {
    byId("token-hint").textContent = used ? WRONG : "Ask who runs this service for yours.";
    byId("login").hidden = false;
    byId("token").focus();
    byId("login").onsubmit = (event) => {
      event.preventDefault();
      takeToken(byId("token").value.trim()).then((isTaken) => isTaken && resolve());
    };
  });
  return state.asking;
}

async function takeToken(token) {
  const hint = (text) => (byId("token-hint").textContent = text);
  byId("token").value = "";
  if (!TOKEN.test(token)) return hint(WRONG) && false;
  const response = await fetch("team", { headers: { Authorization: `Bearer ${token}` } }).catch(() => null);
  if (!response?.ok) return hint(response?.status === 401 ? WRONG : "The service does not answer. Is it running?") && false;
  const { name } = await response.json();
  // What one person has corrected is never sent in the name of another.
  if (state.team && state.team.name !== name) return hint(`This is the token of ${name}. Leave first, to work as somebody else.`) && false;
  keepToken(token);
  byId("login").hidden = true;
  state.asking = null;
  return true;
}

function leave() {
  keepToken("");
  location.reload();
}

async function startTeam() {
  const turn = ++teamTurn;
  const team = await ask("team");
  if (turn !== teamTurn) return;
  state.team = team;
  byId("who").hidden = !team.needs_token;
  byId("who-name").textContent = `${team.name}, ${team.role}`;
  if (team.needs_token) byId("annotator").value = team.name;
  byId("annotator").parentElement.hidden = team.needs_token;
  byId("team").hidden = !(team.role === "reviewer" && (team.needs_token || Object.keys(team.counts || {}).length));
  showProgress(team);
  if (byId("team").open) await showAgreement(turn);
}

function showProgress({ counts = {}, settled, people }) {
  const names = [...new Set([...people.filter(({ role }) => role === "annotator").map(({ name }) => name), ...Object.keys(counts)])];
  const none = { texts: 0, corrections: 0 };
  const rows = names.map((name) => [name, counts[name] || none]);
  if (settled) rows.push(["settled", settled]);
  fillTable("progress", ["", "texts", "corrections"], rows.map(([name, { texts, corrections }]) => [name, texts, corrections]));
}

function fillTable(id, head, rows) {
  const makeRow = (cells, tag) => make("tr", {}, ...cells.map((cell, place) => make(place ? tag : "th", { textContent: cell, scope: place ? "" : "row" })));
  byId(id).replaceChildren(makeRow(head, "th"), ...rows.map((row) => makeRow(row, "td")));
}

async function showAgreement(turn) {
  try {
    const { pairs, mean, count, texts } = await ask("agreement?utf16=true");
    if (turn !== teamTurn) return;
    const figure = (value) => (value === null ? "–" : value.toFixed(2));
    const both = (kappa, share) => `${figure(kappa)} (${share === null ? "–" : percent(share)})`;
    const list = (row) => [both(row.token_kappa, row.token_agreement), figure(row.span_f1), both(row.id_kappa, row.id_agreement)];
    const rows = pairs.map((row) => [`${row.one}, ${row.other}`, row.texts, ...list(row)]);
    if (mean) rows.push(["mean of the pairs", "", ...list(mean)]);
    fillTable("agreement", ["", "texts", "tokens: κ (equal)", "mentions: F1", "concepts: κ (equal)"], rows);
    byId("agreement").hidden = !rows.length;
    const words = count === 1 ? "1 place to settle" : `${count} places to settle`;
    byId("open-places").textContent = count ? words : rows.length ? "Nothing to settle." : "No text has corrections of two annotators yet.";
    byId("places").replaceChildren(...texts.flatMap(({ text, document, disagreements }) => disagreements.map((place) => makePlace({ text, document }, place))));
  } catch (error) {
    say(error.message, true);
  }
}

function makePlace({ text, document }, place) {
  const { start, end, words, kinds, said } = place;
  const before = start > AROUND ? `… ${text.slice(start - AROUND, start)}` : text.slice(0, start);
  const after = text.length > end + AROUND ? `${text.slice(end, end + AROUND)} …` : text.slice(end);
  const around = [before, make("mark", { textContent: words }), after];
  const offers = new Map();
  for (const [name, spans] of Object.entries(said)) {
    const key = JSON.stringify(spans.map(({ annotator, ...span }) => span));
    if (!offers.has(key)) offers.set(key, { names: [], spans });
    offers.get(key).names.push(name);
  }
  const row = make("li", {}, make("p", {}, ...around), make("small", { textContent: `differs: ${kinds.join(", ")}` }));
  row.append(...[...offers.values()].map(({ names, spans }) => makeOffer(text, place, names, spans)));
  row.append(make("span", { className: "actions" }, make("button", { type: "button", textContent: "Show the place", onclick: () => showPlace({ text, document }, place) })));
  return row;
}

function makeOffer(text, place, names, spans) {
  const told = spans.map(tellDecision).join("; ") || "nothing";
  const act = () => settle(text, place, spans);
  const button = make("button", { type: "button", textContent: "Take", onclick: act });
  button.setAttribute("aria-label", `Take: ${told}`);
  return make("div", { className: "offer" }, make("span", {}, make("strong", { textContent: names.join(", ") }), `: ${told}`), button);
}

function tellDecision({ text, kb_id, name, label, context = [], rejected }) {
  if (rejected) return `“${text}” is not a mention`;
  const concept = kb_id === "NIL" ? "no concept" : `${name || ""} ${kb_id}`.trim();
  return [`“${text}” ${concept}`, label, ...context].join(" · ");
}

async function settle(text, place, spans) {
  const accepted = spans.filter((span) => !span.rejected).map(({ text: words, ...span }) => span);
  const { label } = Object.values(place.said).flat()[0];
  const none = [{ start: place.start, end: place.end, label, rejected: true }];
  try {
    await queue("saving", async () => {
      await ask("gold", { text, spans: countPoints(text, accepted.length ? accepted : none) });
      if (text === state.text) await refresh(text);
    });
    say("Settled.");
  } catch (error) {
    say(error.message, true);
  }
  await startTeam();
  takeFocus(byId("open-places"));
}

async function showPlace({ text, document }, { start, end }) {
  const opening = document && document !== state.document?.id ? openDocument(document) : null;
  const turn = list.opening;
  await opening;
  if (turn !== list.opening) return;
  if (text !== state.text) {
    // The text of an open document stays what it is.
    if (state.document) await closeDocument(true, text);
    else {
      byId("text").value = text;
      await link();
    }
  }
  if (text !== state.text) return; // another one is shown meanwhile
  const at = state.mentions.findIndex((mention) => overlap(mention, { start, end }));
  if (at < 0) {
    state.draft = { start, end, text: text.slice(start, end), id: null, isDraft: true };
    showText();
  }
  choose(at < 0 ? state.mentions.findIndex((mention) => mention.isDraft) : at);
  focusMention();
}

async function downloadTeam(path, name) {
  try {
    const { content } = await ask(path);
    store(name, name.endsWith(".csv") ? `\ufeff${content}` : content);
  } catch (error) {
    say(error.message, true);
  }
}

const files = { prodigy: ["team/export", "team.jsonl"], csv: ["team/export?format=csv", "team.csv"], table: ["agreement/table", "disagreements.csv"] };
for (const [name, [path, file]] of Object.entries(files)) byId(`team-${name}`).onclick = () => downloadTeam(path, file);
byId("leave").onclick = leave;
byId("team-update").onclick = startTeam;
byId("team").ontoggle = () => byId("team").open && startTeam();
readToken();
