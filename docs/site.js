// Gives each frame of an answer the height that its page reports (templates/embedded.html.j2 of costof/report).
"use strict";
addEventListener("message", (event) => {
  const height = event.data?.costofHeight;
  if (typeof height !== "number") return;
  for (const frame of document.querySelectorAll(".answer iframe")) {
    if (frame.contentWindow === event.source) frame.style.height = `${height}px`;
  }
});
