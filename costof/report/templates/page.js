// What a browser adds to the page: sections open by their links and for print, and the answer can be copied.
"use strict";
(() => {
  const sections = [...document.querySelectorAll("main > section > details")];
  const openAll = document.getElementById("open-all");

  /** Open the section and the other details around the element that the URL names, and scroll to it. */
  function openTarget() {
    const name = decodeURIComponent(location.hash.slice(1));
    const target = name && !name.includes("=") ? document.getElementById(name) : null;
    if (target === null) return;
    target.querySelector(":scope > details")?.setAttribute("open", "");
    for (let each = target.closest("details"); each; each = each.parentElement.closest("details")) each.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", openTarget);
  // A link to the section that the URL already names causes no hashchange.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link && link.getAttribute("href") === location.hash) openTarget();
  });

  function label() {
    openAll.textContent = sections.every((each) => each.open) ? "Close all" : "Open all";
  }
  openAll.addEventListener("click", () => {
    const open = !sections.every((each) => each.open);
    for (const each of sections) each.open = open;
    label();
  });
  for (const each of sections) each.addEventListener("toggle", label);
  openAll.hidden = sections.length === 0;
  label();

  // Print all sections of the page, closed or open.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = sections.filter((each) => !each.open && each.parentElement.id !== "pass-on");
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });

  // Mark the section that is being read in the contents.
  const links = new Map([...document.querySelectorAll(".bar a")].map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      const link = links.get(target.id);
      if (!isIntersecting || !link) continue;
      for (const each of links.values()) each.removeAttribute("aria-current");
      link.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-15% 0px -80% 0px" });
  for (const each of document.querySelectorAll("main > section")) watcher.observe(each);

  const source = document.getElementById("answer-markdown");
  if (source === null) {
    openTarget();
    return;
  }
  const status = document.getElementById("pass-on-status");
  const copy = document.getElementById("copy-markdown"), png = document.getElementById("card-png");
  copy.hidden = png.hidden = false;
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(source.value);
      status.textContent = "Copied.";
    } catch {
      source.select();
      status.textContent = document.execCommand("copy") ? "Copied." : "Copy the selected text below.";
    }
  });
  png.addEventListener("click", () => {
    const link = document.getElementById("card-svg"), image = new Image();
    image.addEventListener("load", () => {
      const canvas = document.createElement("canvas"), size = 2;
      [canvas.width, canvas.height] = [size * image.width, size * image.height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const saved = document.createElement("a");
      saved.href = canvas.toDataURL("image/png");
      saved.download = link.download.replace(/svg$/, "png");
      saved.click();
      status.textContent = `Saved ${saved.download}.`;
    });
    image.src = link.href;
  });
  openTarget();
})();
