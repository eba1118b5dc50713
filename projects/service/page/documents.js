"use strict";
// The documents of the team: the list, the one that is open and its place in the list, uploads and downloads.

const STATES = { new: ["○", "new"], begun: ["◐", "begun"], done: ["●", "done"] };
const isNarrow = matchMedia("(max-width: 50rem)"); // as in style.css
const PAGE_SIZE = 50;
// What the page knows of the list; `turn`, `placing` and `opening` count what is asked for, so that a late answer is not shown.
const list = { start: 0, total: 0, keeps: false, first: null, turn: 0, placing: 0, opening: 0, later: 0, searching: 0, uploads: [], sending: Promise.resolve() };

// The address and the history

function readAddress() {
  return new URLSearchParams(location.hash.slice(1));
}

function writeAddress(changes, isNew = false) {
  const address = readAddress();
  for (const [key, value] of Object.entries(changes)) {
    if (value) address.set(key, value);
    else address.delete(key);
  }
  history[isNew ? "pushState" : "replaceState"](isNew ? null : history.state, "", `#${address}`);
}

function keepPlace() {
  // Numbers only, and for as long as the tab is open.
  const chosen = state.mentions[state.chosen];
  // While another document is on its way, the entry is already that one's.
  if (!state.document || readAddress().get("document") !== state.document.id) return;
  try {
    history.replaceState({ scroll: scrollY, chosen: chosen ? nameOf(chosen) : null }, "");
  } catch {} // some browsers allow a hundred in half a minute; the next one keeps the place
}

function restorePlace(place) {
  const mention = state.mentions.findIndex((one) => nameOf(one) === place?.chosen);
  if (mention >= 0) choose(mention);
  scrollTo({ top: place?.scroll || 0, behavior: "instant" });
}

// The document that is open

async function openDocument(id, isNew = true) {
  const turn = ++list.opening;
  list.placing++;
  const place = isNew ? null : history.state;
  try {
    const opened = await ask(`documents/${encodeURIComponent(id)}`);
    if (turn !== list.opening) return;
    if (isNew) {
      keepPlace();
      writeAddress({ document: id }, true);
    }
    leaveText(opened.text);
    state.document = opened;
    byId("text").value = opened.text;
    showDocument();
    if (isNew && isNarrow.matches) byId("documents").open = false;
    await link();
    if (turn !== list.opening) return;
    restorePlace(place);
    if (isNew) takeFocus(byId("document-name"));
  } catch (error) {
    if (turn === list.opening) say(error.message, true);
  }
}

async function closeDocument(isNew = true, text = list.freeText) {
  list.opening++;
  if (isNew) {
    keepPlace();
    writeAddress({ document: "" }, true);
  }
  leaveText(text);
  state.document = null;
  byId("text").value = text;
  showDocument();
  await link();
  if (isNew) takeFocus(byId("text"));
}

function showDocument() {
  const opened = state.document;
  document.title = opened ? opened.name : list.title;
  byId("document-bar").hidden = !opened;
  byId("source").open = !opened;
  byId("source-summary").hidden = !opened;
  byId("text").readOnly = Boolean(opened);
  byId("link").hidden = Boolean(opened);
  if (opened) {
    byId("document-name").textContent = opened.name;
    const [sign, words] = STATES[opened.state];
    byId("document-about").textContent = `${sign} ${words} · ${opened.characters.toLocaleString("en")} characters`;
    byId("document-done").hidden = !list.keeps;
    byId("document-reopen").hidden = !list.keeps || opened.state !== "done";
  }
  markCurrent();
}

const mark = (id, wanted) => queue("marking", () => ask(`documents/${id}/state`, { state: wanted }));

async function setState(wanted) {
  const { id, text } = state.document;
  // What was corrected before counts for it.
  await state.saving;
  if (wanted === "done" && state.keeps && hasUnsaved(text)) throw new Error("Not done yet: a correction is not saved. Correct it again, or find out why the service does not keep it.");
  const described = await mark(id, wanted);
  if (state.document?.id === id) {
    Object.assign(state.document, described);
    showDocument();
  }
  await showList();
}

async function move(direction) {
  if (!state.document) return;
  const turn = list.opening;
  try {
    const near = await ask(`documents/${state.document.id}/around?${readView()}`);
    if (turn !== list.opening) return; // another one was opened meanwhile
    const other = near[direction];
    if (other) return await openAt(other.id);
    say(direction === "open" ? "All documents of this list are done." : `This is the ${direction === "next" ? "last" : "first"} document of the list.`);
  } catch (error) {
    say(error.message, true);
  }
}

async function openAt(id, isNew = true) {
  // Side by side, because who turns the page while concepts are looked for stays there.
  await Promise.all([openDocument(id, isNew), showAround(id)]);
}

async function finish() {
  if (!state.document || !list.keeps) return;
  if (state.text !== state.document.text) return say("Not done yet: its text is not shown.");
  const turn = list.opening;
  try {
    await setState("done");
  } catch (error) {
    return say(error.message, true);
  }
  if (turn === list.opening) await move("open");
}

async function reopen() {
  try {
    await setState("begun");
    say("The document is no longer done.");
  } catch (error) {
    say(error.message, true);
  }
}

function noteChange(text) {
  // Somebody has changed something in the document: it has begun, even if all is taken back later.
  const opened = state.document;
  if (!opened || !list.keeps) return;
  if (opened.state === "new" && opened.text === text) {
    opened.state = "begun";
    mark(opened.id, "begun").catch(() => null).then(showListSoon);
    showDocument();
  } else showListSoon();
}

function showListSoon() {
  clearTimeout(list.later);
  list.later = setTimeout(() => state.saving.then(showList), 300);
}

// The list

function readView() {
  const view = { search: byId("document-query").value.trim(), state: byId("document-state").value, order: byId("document-order").value };
  return new URLSearchParams(Object.entries(view).filter(([, value]) => value));
}

async function showAround(id = state.document?.id) {
  // Show the page of the list with this document.
  const turn = ++list.placing;
  clearTimeout(list.searching);
  if (id) {
    const { place } = await ask(`documents/${encodeURIComponent(id)}/around?${readView()}`).catch(() => ({ place: list.start }));
    if (turn === list.placing) list.start = place - (place % PAGE_SIZE);
  }
  await showList();
}

async function showList() {
  const turn = ++list.turn;
  const { start } = list;
  const view = readView();
  view.set("start", start);
  view.set("count", PAGE_SIZE);
  try {
    const answer = await ask(`documents?${view}`);
    if (turn !== list.turn) return;
    if (start >= answer.total && start > 0) {
      list.start = 0;
      return await showList();
    }
    drawList(answer, start);
  } catch (error) {
    if (turn === list.turn) say(error.message, true);
  }
}

function drawList(answer, start) {
  Object.assign(list, { total: answer.total, keeps: answer.keeps, first: answer.documents[0] });
  byId("documents").hidden = !answer.all && !answer.may_add;
  byId("document-count").textContent = answer.all ? `${answer.done.toLocaleString("en")} of ${answer.all.toLocaleString("en")} documents done` : "No documents yet";
  Object.assign(byId("document-progress"), { max: answer.all || 1, value: answer.done });
  for (const id of ["document-progress", "document-search", "document-pages", "document-download"]) byId(id).hidden = !answer.all;
  byId("document-upload").hidden = !answer.may_add;
  byId("document-list").replaceChildren(...answer.documents.map(makeDocumentRow));
  const end = start + answer.documents.length;
  byId("document-page").textContent = answer.total ? `${(start + 1).toLocaleString("en")}–${end.toLocaleString("en")} of ${answer.total.toLocaleString("en")}` : "No such document";
  byId("document-earlier").disabled = !start;
  byId("document-later").disabled = end >= answer.total;
  const isRating = answer.rated !== undefined && answer.rated < answer.total;
  byId("document-note").textContent = isRating ? `Rated: ${answer.rated} of ${answer.total}. Those without a rating come last.` : "";
  if (isRating) {
    clearTimeout(list.later);
    list.later = setTimeout(showList, 2000);
  }
  showProblems(answer.problems);
  markCurrent();
}

function makeDocumentRow({ id, name, state: how, characters, corrections }) {
  const [sign, words] = STATES[how];
  const facts = [words, corrections ? `${corrections} corrected` : "", `${characters.toLocaleString("en")} characters`];
  const button = make("button", { type: "button", onclick: () => openDocument(id) },
    make("span", { className: "sign", ariaHidden: "true", textContent: sign }),
    make("span", {}, name, make("small", { textContent: facts.filter(Boolean).join(" · ") })),
  );
  button.dataset.document = id;
  return make("li", {}, button);
}

function markCurrent() {
  for (const button of byId("document-list").querySelectorAll("button")) {
    const isCurrent = button.dataset.document === state.document?.id;
    if (isCurrent) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
  const current = byId("document-list").querySelector("[aria-current]");
  // Within the list only: the page itself stays where it is.
  if (current) byId("document-list").scrollTop = current.offsetTop - byId("document-list").offsetTop - byId("document-list").clientHeight / 2;
}

function showProblems({ count, first }) {
  byId("document-problems").hidden = !count;
  byId("document-problem-count").textContent = count === 1 ? "1 note on the files" : `${count} notes on the files`;
  const rows = first.map(({ file, line, reason }) => make("li", { textContent: `${file}${line ? `, line ${line}` : ""}: ${reason}` }));
  if (count > first.length) rows.push(make("li", { textContent: `and ${count - first.length} more` }));
  byId("document-problem-list").replaceChildren(...rows);
}

function turnPage(step) {
  // Two clicks may come before the first page is drawn.
  const start = list.start + step * PAGE_SIZE;
  if (start < 0 || start >= list.total) return;
  list.placing++;
  list.start = start;
  showList();
}

// Uploads and downloads

async function addFiles(files) {
  byId("document-files").value = "";
  for (const file of files) list.uploads.push({ name: file.name, bytes: await file.arrayBuffer().catch(() => null) });
  sendSoon();
}

function sendSoon() {
  list.sending = list.sending.then(sendFiles).catch((error) => say(error.message, true));
}

async function sendFiles() {
  // One after the other, until one needs somebody to choose its columns; the others wait, and those that come meanwhile.
  const { uploads } = list;
  if (!uploads.length) return;
  if (!byId("document-columns").hidden) return say("The files wait: first choose the column of the texts.");
  const said = [];
  const turn = list.opening;
  let [first, hasProblem, unclear] = [null, false, null];
  while (uploads.length && !unclear) {
    const upload = uploads.shift();
    try {
      const { added, problems } = await ask("documents", readUpload(upload));
      first ??= added[0]?.id;
      hasProblem ||= problems.count > 0;
      said.push(describeUpload(upload.name, added, problems));
    } catch (error) {
      hasProblem = true;
      if (error.columns) unclear = { upload, columns: error.columns };
      const hint = error.status === 413 ? " Or split the file, or put it into the folder of the service's setting --documents." : "";
      said.push(`${upload.name}: ${unclear ? "choose the column of the texts." : error.message + hint}`);
    }
  }
  await showList();
  if (first && !state.document && turn === list.opening) await openAt(first);
  say(said.join(" "), hasProblem);
  byId("document-columns").hidden = !unclear;
  if (unclear) askColumns(unclear);
}

function readUpload({ name, bytes, columns = {} }) {
  if (!bytes) throw new Error("it can't be read. If it is a folder, add the files in it.");
  try {
    return { name, content: new TextDecoder("utf-8", { fatal: true }).decode(bytes), ...columns };
  } catch {
    throw new Error("it is not UTF-8. Save it as UTF-8, and add it again.");
  }
}

function describeUpload(name, added, { count, first }) {
  const figure = added.length === 1 ? "1 document" : `${added.length} documents`;
  const notes = first.slice(0, 3).map(({ line, reason }) => `line ${line}: ${reason}`);
  return `${name}: ${figure}.${count ? ` Not all of it can be used (${count}): ${notes.join("; ")}.` : ""}`;
}

function askColumns({ upload, columns }) {
  byId("document-columns-legend").textContent = `Columns of ${upload.name}`;
  const options = () => columns.filter((name) => name.trim()).map((name) => make("option", { value: name, textContent: name }));
  byId("text-column").replaceChildren(...options());
  byId("name-column").replaceChildren(make("option", { value: "", textContent: "none" }), ...options());
  byId("text-column").focus();
  const goOn = () => {
    byId("document-columns").hidden = true;
    sendSoon();
  };
  byId("take-columns").onclick = () => {
    upload.columns = { text_column: byId("text-column").value, name_column: byId("name-column").value };
    list.uploads.unshift(upload);
    goOn();
  };
  byId("skip-columns").onclick = () => {
    say(`${upload.name} is left out.`);
    goOn();
  };
}

async function downloadAll() {
  const format = byId("all-format").value;
  const names = { csv: "documents.csv", fhir: "documents.fhir.jsonl", prodigy: "documents.jsonl" };
  byId("download-all").disabled = true;
  try {
    const { content, notes } = await collect(format);
    store(names[format], format === "csv" ? `\ufeff${content}` : content);
    const words = Object.entries(notes).map(([kind, count]) => `${kind} (${count})`);
    say(words.length ? `Downloaded. Note: ${words.join("; ")}.` : "Downloaded.");
  } catch (error) {
    say(error.message, true);
  } finally {
    byId("download-all").disabled = false;
  }
}

async function collect(format) {
  const [parts, notes] = [[], {}];
  let [start, all] = [0, null];
  while (start !== null) {
    const part = await ask(`download?${new URLSearchParams({ format, start })}`);
    all ??= part.total;
    if (all !== part.total) throw new Error("Documents have come or gone meanwhile. Download them again.");
    parts.push(part.content);
    for (const [kind, count] of Object.entries({ ...part.left_out, ...part.odd })) notes[kind] = (notes[kind] || 0) + count;
    start = part.next;
    if (start !== null) say(`Downloading: ${start.toLocaleString("en")} of ${all.toLocaleString("en")} documents …`);
  }
  return { content: parts.join(""), notes };
}

// Keys and clicks

function onDocumentKey(event) {
  const isWriting = event.target.matches("textarea:not([readonly]), input[type=search], input[type=text]");
  // Who holds the key down has read one document, not all that follow.
  const acts = { ArrowRight: () => move("next"), ArrowLeft: () => move("previous"), Enter: () => event.repeat || finish() };
  const isOurs = event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey && event.key in acts;
  if (!isOurs || !state.document || isWriting) return;
  // Neither the browser's own history nor the mentions move.
  event.preventDefault();
  event.stopPropagation();
  acts[event.key]();
}

function dropFiles(event) {
  if (!event.dataTransfer?.types.includes("Files") || byId("document-upload").hidden) return;
  event.preventDefault();
  byId("documents").classList.toggle("dropping", event.type === "dragover");
  if (event.type === "drop") addFiles([...event.dataTransfer.files]);
}

function onHistory() {
  const id = readAddress().get("document");
  if (id && id !== state.document?.id) openDocument(id, false);
  else if (!id && state.document) closeDocument(false);
  else list.opening++; // whoever has gone on and back no longer waits for another one
}

async function openFirst() {
  const { id, state: how } = list.first;
  const turn = list.opening;
  const near = how === "done" ? await ask(`documents/${id}/around`).catch(() => ({})) : {};
  if (turn !== list.opening) return;
  writeAddress({ document: near.open?.id || id });
  await openAt(near.open?.id || id, false);
}

async function startDocuments() {
  Object.assign(list, { title: document.title, freeText: byId("text").value });
  byId("documents").open = !isNarrow.matches;
  history.scrollRestoration = "manual";
  await showList();
  const id = readAddress().get("document");
  if (id) await openAt(id, false);
  else if (list.first && !state.turn) await openFirst();
  // Not again if somebody was faster than the list.
  if (!state.document && !state.turn) await link();
}

for (const [id, act] of Object.entries({
  "document-previous": () => move("previous"), "document-next": () => move("next"), "document-done": (event) => event.detail > 1 || finish(), "document-reopen": reopen,
  "document-earlier": () => turnPage(-1), "document-later": () => turnPage(1), "try-text": () => closeDocument(), "download-all": downloadAll,
})) byId(id).onclick = act;
for (const id of ["document-state", "document-order"]) byId(id).onchange = () => { list.start = 0; showAround(); };
byId("document-query").oninput = () => {
  clearTimeout(list.searching);
  list.placing++;
  list.searching = setTimeout(() => { list.start = 0; showList(); }, 200);
};
byId("document-search").onsubmit = (event) => event.preventDefault();
byId("document-files").onchange = (event) => addFiles([...event.target.files]);
byId("text").addEventListener("input", () => { if (!state.document) list.freeText = byId("text").value; });
document.addEventListener("keydown", onDocumentKey, true);
for (const kind of ["dragover", "dragleave", "drop"]) byId("documents").addEventListener(kind, dropFiles);
window.addEventListener("popstate", onHistory);
for (const kind of ["pagehide", "scrollend"]) window.addEventListener(kind, keepPlace);
