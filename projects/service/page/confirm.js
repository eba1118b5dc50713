"use strict";
// Confirming many mentions at once, as one step that undoing takes back.
const SHARES = [1, 0.95, 0.9, 0.8, 0.7, 0.5];

const findMeasure = () => (state.mentions.some((mention) => mention.probability !== undefined) ? "probability" : "similarity");
const isUndecided = (mention) => !mention.isConfirmed && !mention.isDraft;
const tellCount = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

function findCertainty(mention, kind = findMeasure()) {
  // Where no concept was chosen, the probability says how likely it is that none is right.
  return isUndecided(mention) && mention.id ? rate(mention, kind) : null;
}

function listCertain() {
  const least = Number(byId("least").value);
  const kind = findMeasure();
  return state.mentions.filter((mention) => (findCertainty(mention, kind) ?? -1) >= least);
}

function listUndecided(id) {
  return state.mentions.filter((mention) => isUndecided(mention) && mention.id === id);
}

function confirmMentions(mentions, what) {
  if (!mentions.length) {
    say(`Nothing to confirm: ${what}.`);
    return;
  }
  // The panel stays with the mention that it shows.
  const here = state.mentions[state.chosen] || null;
  takeStep(mentions.map((mention) => makeSpan(mention)), here);
  save(state.text, `Confirmed ${tellCount(mentions.length, "mention")}: ${what}.`);
}

function confirmConcept(id) {
  const mention = state.mentions.find((mention) => mention.id === id);
  confirmMentions(listUndecided(id), mention ? findName(mention) : id);
}

function confirmCertain() {
  confirmMentions(listCertain(), `${findMeasure()} of at least ${percent(byId("least").value)}`);
}

function makeConfirmAll(id, name) {
  // For the list of concepts.
  const { length } = listUndecided(id);
  if (!length) return "";
  const properties = { type: "button", className: "confirm", textContent: "Confirm all", title: `Confirm ${tellCount(length, "mention")}` };
  const button = make("button", { ...properties, onclick: () => confirmConcept(id) });
  button.setAttribute("aria-label", `Confirm all: ${name}, ${tellCount(length, "mention")}`);
  return button;
}

function showConfirm() {
  const { length } = listCertain();
  const kind = findMeasure();
  byId("confirm-kind").textContent = `${kind} ≥`;
  byId("confirm-certain").disabled = !length;
  byId("confirm-certain").textContent = length ? `Confirm all (${length})` : "Confirm all";
  byId("confirm-certain").title = `Confirm all mentions with a ${kind} of at least ${percent(byId("least").value)}. Key: Shift+A`;
}

byId("least").append(...SHARES.map((share) => make("option", { value: share, textContent: percent(share), selected: share === 0.9 })));
byId("least").onchange = showConfirm;
byId("confirm-certain").onclick = confirmCertain;
byId("confirm-concept").onclick = () => confirmConcept(state.mentions[state.chosen]?.id);
