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
  const ended = { finished: "Run finished", stopped: "Run stopped" };
  const goOn = " Go on with: " + state.go_on;
  tell("way", ended[state.standing] || (state.silent ? "No news from this run" : "Run under way"));
  document.title = state.run + ": " + state.standing;
  if (state.finished) tell("said", "Its report is report.html in its folder.");
  else if (state.standing === "stopped") tell("said", "Nothing is lost that was paid for." + goOn);
  else if (state.silent) tell("said", "Nothing has been logged for long. If it was ended:" + goOn);
  else tell("said", "");
  tell("pace", state.standing === "under way" ? "of this stage, at the pace of recent steps" : "");
}

async function ask() {
  try {
    const answer = await fetch("state.json");
    const state = await answer.json();
    show(state);
    document.body.dataset.shown = "yes";
    if (state.finished) return;
  } catch (error) {
    tell("way", "No longer followed");
    tell("left", "–");
    tell("pace", "");
    tell("said", "The server has ended; what is shown is the last that was seen.");
  }
  setTimeout(ask, 2000);
}
ask();
