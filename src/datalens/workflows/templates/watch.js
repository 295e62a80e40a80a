"use strict";
// Asks for the run's state every two seconds and shows it. It sends nothing but its questions.
const at = (id) => document.getElementById(id);

function tell(id, text) {
  if (at(id).textContent !== text) at(id).textContent = text;
}

function inWords(seconds) {
  if (seconds === null) return "–";
  if (seconds < 90) return Math.ceil(seconds) + " s";
  if (seconds < 5400) return Math.ceil(seconds / 60) + " min";
  return (seconds / 3600).toFixed(1) + " h";
}

function stageRow(stage) {
  const row = document.createElement("div");
  const name = document.createElement("label");
  const bar = document.createElement("progress");
  const count = document.createElement("span");
  bar.max = Math.max(stage.total, 1);
  bar.value = stage.done;
  bar.id = "stage-" + stage.stage;
  name.htmlFor = bar.id;
  name.textContent = stage.stage.replaceAll("-", " ");
  count.textContent = stage.done + " of " + stage.total;
  count.className = "number";
  row.append(name, bar, count);
  return row;
}

function show(state) {
  const last = state.stages.at(-1);
  tell("about", [state.method, state.data].filter(Boolean).join(" on ") || "Waiting for the run to begin.");
  tell("epsilon", state.epsilon_shown);
  tell("budget", state.budget === null ? "there is no budget" : "of " + state.budget);
  if (last) {
    tell("done", last.done + " of " + last.total);
    tell("stage", last.stage.replaceAll("-", " "));
    at("stages").replaceChildren(...state.stages.map(stageRow));
  }
  tell("left", state.finished ? "none" : inWords(state.seconds_left));
  if (state.picture !== null && at("picture").dataset.version !== String(state.picture)) {
    at("picture").dataset.version = state.picture;
    at("picture").src = "samples.png?" + state.picture;
    at("picture").alt = "Synthetic images, one row for each class";
    at("picture").hidden = false;
    at("none").hidden = true;
  }
  if (state.finished) {
    tell("way", "Run finished");
    tell("pace", "");
    tell("said", "Its report is report.html in its folder.");
  }
}

async function ask() {
  try {
    const answer = await fetch("state.json");
    const state = await answer.json();
    show(state);
    document.body.dataset.shown = "yes";
    if (state.finished) return;
  } catch (error) {
    tell("said", "The server has ended; what is shown is the last that was seen.");
  }
  setTimeout(ask, 2000);
}
ask();
