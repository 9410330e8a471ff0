// The calculator, with the same arithmetic as calculator.py and the number format of costof/format.py. The page's URL
// has the values of the fields: #connections=300&queries=20&rtt=2.
"use strict";
(() => {
  const MINUS = "\u2212", NBSP = "\u00a0", NONE = "\u2013", MOST = 1e9, MOST_DECIMALS = 6;
  const data = JSON.parse(document.getElementById("calculator-data").textContent);
  const form = document.getElementById("calculator-form");
  const fields = {
    connections_per_second: { least: 0 },
    operations: { least: 1 },
    round_trip_ms: { least: 0 },
    price: { least: 0 },
    clients: { least: 0 },
    flush_ms: { least: 0 },
    bandwidth_mbit: { above: 0, optional: true },
  };
  for (const name of Object.keys(data.fixed)) delete fields[name];
  const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

  /** Return the error message for a field's text, or "". */
  function errorMessage(text, rule) {
    if (text === "") return rule.optional ? "" : "Enter a number.";
    if (!NUMBER.test(text)) return "Not a number; write it like 44.6.";
    const value = Number(text);
    if ("least" in rule && value < rule.least) return `Must be ${rule.least} or more.`;
    if ("above" in rule && value <= rule.above) return `Must be more than ${rule.above}.`;
    return value > MOST ? "Must be 1,000,000,000 or less." : "";
  }

  /** Show the error of each field; return the load as numbers, or null if a field has an error. */
  function load() {
    const values = { ...data.fixed };
    let valid = true;
    for (const [name, rule] of Object.entries(fields)) {
      const input = form.elements[name], text = input.value.trim(), error = errorMessage(text, rule);
      document.getElementById(`calculator-${name}-error`).textContent = error;
      input.setAttribute("aria-invalid", String(error !== ""));
      values[name] = text === "" ? null : Number(text);
      valid = valid && error === "";
    }
    return valid ? values : null;
  }

  // An estimate is [value, low, high, rounds].
  function milliseconds(extra, load) {
    let exact = extra.round_trips * load.round_trip_ms + extra.flushes * load.flush_ms;
    if (load.bandwidth_mbit !== null) exact += extra.bytes * 8 / (load.bandwidth_mbit * 1000);
    const [value, low, high, rounds] = extra.own_ms;
    return [value + exact, low + exact, high + exact, rounds];
  }

  function sum(terms) {
    const total = (index) => terms.reduce((all, [factor, each]) => all + factor * each[index], 0);
    return [total(0), total(1), total(2), Math.min(...terms.map(([, each]) => each[3]))];
  }

  /** Return the added costs, in the order of data.outputs. A cost that is unknown is null. */
  function added(extra, load) {
    const connection = milliseconds(extra.connection, load), operation = milliseconds(extra.operation, load);
    const later = Math.max(0, load.operations - extra.inside);
    const cpu = sum([[1, extra.connection.cpu_ms], [later, extra.operation.cpu_ms]]);
    const rate = load.connections_per_second / 1000, cores = sum([[rate, cpu]]);
    const part = (cost) => cost === undefined ? null : sum([[rate, cost]]);
    const servers = part(extra.connection.servers_cpu_ms), client = part(extra.connection.client_cpu_ms);
    const request = sum([[1 / load.operations, connection], [later / load.operations, operation]]);
    const money = sum([[data.hours * load.price, servers ?? cores]]);
    const reconnect = sum([[load.clients / 1000, extra.connection.cpu_ms]]);
    const memory = extra.memory_bytes && sum([[load.clients / 1e9, extra.memory_bytes]]);
    const every = { connection, operation, request, cores, servers, client, money, reconnect, memory };
    return data.outputs.map((name) => every[name]);
  }

  // Return decimals for two digits of the half interval if it begins with 1 or 2, else for one digit.
  function decimals([value, low, high]) {
    const half = (high - low) / 2;
    if (half > 0 && Number.isFinite(half)) {
      const exponent = Math.floor(Math.log10(half)), digits = half / 10 ** exponent < 2.95 ? 2 : 1;
      return Math.min(MOST_DECIMALS, Math.max(0, digits - 1 - exponent));
    }
    return value === 0 ? 0 : Math.min(MOST_DECIMALS, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value)))));
  }

  function number(value, places, signed) {
    const [whole, part] = Math.abs(value).toFixed(places).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part === undefined ? "" : `.${part}`);
    if (Number(value.toFixed(places)) === 0) return text;
    return (value < 0 ? MINUS : signed ? "+" : "") + text;
  }

  function show(cell, estimate) {
    const places = decimals(estimate), unit = cell.dataset.unit;
    const value = document.createElement("span"), interval = document.createElement("span");
    value.className = "value";
    value.textContent = number(estimate[0], places, true) + (unit ? NBSP + unit : "");
    interval.className = "interval";
    interval.textContent = estimate[3] < 2
      ? "[one round]"
      : `[${number(estimate[1], places)}, ${number(estimate[2], places)}]`;
    cell.replaceChildren(value, " ", interval);
  }

  const chosen = () => form.elements.protection?.value ?? data.protections[0].name;

  function fill(cells, costs) {
    cells.forEach((cell, index) => {
      const cost = costs === null ? null : costs[index];
      return cost === null ? cell.replaceChildren(NONE) : show(cell, cost);
    });
  }

  function update() {
    const current = load();
    const costs = (name) => current && added(data.protections.find((each) => each.name === name), current);
    fill(document.querySelectorAll("#calculator-outputs td"), costs(chosen()));
    for (const row of document.querySelectorAll("#calculator-all tbody tr")) {
      fill(row.querySelectorAll("td"), costs(row.dataset.protection));
    }
    for (const slider of sliders) slide(slider);
    const text = state();
    document.getElementById("calculator-tools").hidden = text === "";
    document.getElementById("calculator-link").href = `#${text}`;
  }

  // A slider has 1,000 steps. From 0 on, it counts the logarithm of 1 + value.
  const STEPS = 1000, sliders = form.querySelectorAll("input[type=range]");

  function slide(slider) {
    const value = Number(form.elements[slider.dataset.field].value), low = Number(slider.dataset.low);
    const high = Number(slider.dataset.high), from = low > 0 ? 0 : 1, start = Math.log(low + from);
    const share = (Math.log(Math.max(value, low) + from) - start) / (Math.log(high + from) - start);
    if (Number.isFinite(share)) slider.value = String(Math.round(STEPS * Math.min(1, Math.max(0, share))));
    slider.setAttribute("aria-valuetext", form.elements[slider.dataset.field].value);
  }

  /** Return the value at a slider's position, with two significant digits. */
  function atPosition(slider) {
    const low = Number(slider.dataset.low), high = Number(slider.dataset.high), from = low > 0 ? 0 : 1;
    const share = Number(slider.value) / STEPS;
    const value = (low + from) * ((high + from) / (low + from)) ** share - from;
    return slider.dataset.field === "operations" && value < 10 ? Math.round(value) : Number(value.toPrecision(2));
  }

  const inputs = [...form.querySelectorAll("[data-key]")];

  /** Return the values that differ from the first values of their fields, in the form of the URL. */
  function state() {
    const values = new URLSearchParams();
    for (const input of inputs) {
      const text = input.value.trim();
      if (text !== input.dataset.initial) values.set(input.dataset.key, text);
    }
    return String(values);
  }

  /** Write the values into the URL, without an entry in the browser's history. */
  function keep() {
    const text = state();
    try {
      history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
    } catch {
      // Some browsers limit how often a page may do this.
    }
  }

  /** Say which values in the URL have no field on this page, unless the run has the same value. */
  function warn(values) {
    const fixed = { queries: data.fixed.operations };
    const texts = Object.entries(data.without)
      .filter(([key]) => values.has(key) && Number(values.get(key)) !== fixed[key])
      .map(([key, text]) => text.replace("{value}", () => values.get(key)).replace("{fixed}", fixed[key]));
    const line = document.getElementById("calculator-without");
    line.textContent = texts.join(" ");
    line.hidden = texts.length === 0;
  }

  /** Set each field to the value in the URL, or to the field's first value if the URL has none. */
  function restore() {
    const values = new URLSearchParams(location.hash.slice(1));
    warn(values);
    if (!inputs.some((input) => values.has(input.dataset.key))) return;
    for (const input of inputs) input.value = values.get(input.dataset.key) ?? input.dataset.initial;
    if (form.elements.protection?.selectedIndex === -1) form.elements.protection.selectedIndex = 0;
    update();
  }

  function changed(event) {
    const slider = event?.target;
    if (slider?.type === "range") form.elements[slider.dataset.field].value = String(atPosition(slider));
    update();
    keep();
  }

  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("button[data-field]")) {
    button.addEventListener("click", () => {
      form.elements[button.dataset.field].value = button.dataset.value;
      changed();
    });
  }
  document.getElementById("calculator-reset").addEventListener("click", () => {
    for (const input of inputs) input.value = input.dataset.initial;
    warn(new URLSearchParams());
    changed();
  });
  addEventListener("hashchange", restore);
  form.hidden = false;
  document.getElementById("calculator-fixed").hidden = true;
  update();
  restore();
})();
