"use strict";
// Learning from corrections: what there is to learn from, the job, and which pipeline is in use.

const FIGURES = {
  f1: "F1 of mentions with id",
  precision: "precision",
  recall: "recall",
  right_ids: "right ids of right mentions",
  agreed: "corrections agreed with",
  ece: "error of probabilities (ECE)",
};
const STEPS = { names: "further names of concepts", skips: "names to skip", network: "the order of candidates and their probabilities" };
const LOOK = 1.5; // seconds between two looks at a job
// The run that somebody does not want to use, and what ends when the service has answered.
const learning = { timer: 0, kept: "", asking: Promise.resolve() };

const count = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;
const points = (share) => (100 * share).toFixed(1);
const signed = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

async function showLearning(ask_ = () => ask("learning")) {
  // One after the other, so that a late answer is not shown.
  learning.asking = learning.asking.then(ask_, ask_);
  try {
    const status = await learning.asking;
    clearTimeout(learning.timer);
    byId("learning").hidden = !status.is_open;
    if (!status.is_open) return null;
    showJob(status);
    showReport(status);
    if (status.job.state === "running") learning.timer = setTimeout(showLearning, 1000 * LOOK);
    return status;
  } catch (error) {
    tellLearning(error.message, true);
    return null;
  }
}

function tellLearning(text, isError = false) {
  byId("learning-state").textContent = text;
  byId("learning-state").className = isError ? "error" : "hint";
}

function showJob({ lessons, job, report, in_use }) {
  const isRunning = job.state === "running";
  const done = lessons.done ? `, ${lessons.done.toLocaleString("en")} of them done` : "";
  byId("lessons").textContent = `To learn from: ${count(lessons.corrections, "correction")} in ${count(lessons.documents, "document")}${done}. ${lessons.reason}`.trim();
  byId("learn").disabled = isRunning || Boolean(lessons.reason);
  byId("stop-learning").hidden = byId("learning-share").hidden = !isRunning;
  byId("learning-share").value = job.share || 0;
  const isNew = !isRunning && Boolean(report?.pipeline) && report.run !== in_use;
  byId("use-learned").hidden = !isNew;
  byId("keep-old").hidden = !isNew || learning.kept === report.run;
  byId("back").hidden = isRunning || !in_use;
  const words = {
    running: `Learning: ${job.step || "starting"} …`,
    failed: `Learning has failed${job.error ? ` with ${job.error}` : ""}. Nothing has changed.`,
    stopped: "Learning was stopped. Nothing has changed.",
    ended: "Learning ended with the service. Start it again.",
  };
  tellLearning(words[job.state] || (in_use ? "A learned pipeline is in use." : ""), job.state === "failed");
}

function showReport({ report, job, in_use }) {
  const isShown = Boolean(report) && job.state !== "running";
  byId("learned").hidden = !isShown || !report.before;
  if (!isShown) return;
  if (!report.before) {
    tellLearning(report.note);
    return;
  }
  const figures = Object.keys(FIGURES).filter((name) => report.is_whole || ["agreed", "ece"].includes(name));
  byId("learned").querySelector("tbody").replaceChildren(...figures.map((name) => makeFigureRow(name, report)));
  byId("learned").querySelector("caption").textContent = `${judgeReport(report)} ${report.run === in_use ? "In use." : ""}`.trim();
}

function makeFigureRow(name, { before, after, interval }) {
  const [low, high] = interval[name];
  const cells = [before[name], after[name]].map((value) => (value === null ? "–" : points(value)));
  return make(
    "tr", {},
    make("th", { scope: "row", textContent: FIGURES[name] }),
    ...[...cells, `${signed(low)} to ${signed(high)}`].map((textContent) => make("td", { textContent })),
  );
}

function judgeReport({ plan, before, after, interval, mentions, is_whole }) {
  const goal = is_whole ? "f1" : "agreed";
  const [low, high] = interval[goal];
  const change = after[goal] - before[goal];
  const chance = low > 0 || high < 0 ? "" : " This may be chance.";
  const verdict = change < 0 ? "It is worse than before: keep the old one." : change > 0 ? "It is better than before." : "It is as good as before.";
  return `${verdict}${chance} Learned: ${plan.map((step) => STEPS[step]).join(", ")}. Measured on ${count(mentions, "mention")}.`;
}

const post = (path) => showLearning(() => ask(path, {}));

async function changeUse(path) {
  if (await post(path)) link();
}

byId("learn").onclick = () => post("learn");
byId("stop-learning").onclick = () => post("learn/stop");
byId("use-learned").onclick = () => changeUse("learn/use");
byId("back").onclick = () => changeUse("learn/back");
byId("keep-old").onclick = async () => {
  const status = await showLearning();
  if (!status?.report) return;
  learning.kept = status.report.run;
  byId("keep-old").hidden = true;
  tellLearning("The old pipeline stays in use.");
};
byId("learning").ontoggle = () => { if (byId("learning").open) showLearning(); };
