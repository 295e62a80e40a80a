"use strict";
// Shows the samples of one class. Without it, all are shown and nothing can be chosen.
for (const group of document.querySelectorAll("[data-filter]")) {
  const figures = document.querySelectorAll("[data-class]");
  const said = document.querySelector("[data-said]");
  group.hidden = false;
  group.addEventListener("change", (event) => {
    const chosen = event.target.value;
    let shown = 0;
    for (const figure of figures) {
      figure.hidden = chosen !== "" && figure.dataset.class !== chosen;
      if (!figure.hidden) shown += 1;
    }
    document.body.classList.toggle("one-class", chosen !== "");
    said.textContent = shown === figures.length ? "All classes are shown."
      : "Shown: " + event.target.parentElement.textContent.trim() + ".";
  });
}
