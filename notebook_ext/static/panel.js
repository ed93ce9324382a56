// The page of the panel: paints snapshots in place, so that focus, selection and scrolling survive; sends what buttons
// ask for. Texts become text nodes and nothing else: there is no markup in a snapshot.

const SVG = "http://www.w3.org/2000/svg";
const SILENCE = 16; // seconds without a sign of life (one comes every five) after which the panel calls itself stale
const PATIENCE = 1.5; // seconds after which a request that waits says why
const SHOWN = 12; // seconds that the outcome of a request stays on the page

const REHEARSALS = [
  ["429", "429, three times"],
  ["500", "500, three times"],
  ["timeout", "timeout, three times"],
  ["connection", "no connection, three times"],
  ["401", "401, key refused"],
];

// -- small things

const make = (parent, tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
};

const put = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const mark = (node, name, value) => {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
};

const hide = (node, isHidden) => {
  if (node.hidden !== isHidden) node.hidden = isHidden;
};

const seconds = (value) => {
  if (value === null || value === undefined) return "–";
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${value.toFixed(1)} s`;
  const whole = Math.round(value);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  if (!hours) return rest ? `${minutes} min ${rest} s` : `${minutes} min`;
  return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
};

const count = (value) => {
  if (value < 1e4) return value.toLocaleString("en-US");
  return value < 1e6 ? `${(value / 1e3).toFixed(1)}k` : `${(value / 1e6).toFixed(2)}M`;
};

const money = (value) => {
  if (value === null) return "–";
  return `$${value >= 1 || value === 0 ? value.toFixed(2) : value.toFixed(4)}`;
};

const left = (value) => (value < 90 ? `${Math.ceil(value)} s` : seconds(value));

const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });

// A list of keyed parts under one parent: made once, painted each time, taken away when their key is gone.
const keyed = (parent, build) => {
  const known = new Map();
  return (items, keyOf) => {
    const wanted = new Set(items.map(keyOf));
    for (const [key, part] of known) {
      if (!wanted.has(key)) {
        part.node.remove();
        known.delete(key);
      }
    }
    let before = null;
    for (const item of items) {
      const key = keyOf(item);
      let part = known.get(key);
      if (!part) {
        part = build(item);
        known.set(key, part);
      }
      const place = before ? before.nextSibling : parent.firstChild;
      if (place !== part.node) parent.insertBefore(part.node, place);
      before = part.node;
      part.paint(item);
    }
  };
};

// -- parts

const sparkline = (parent) => {
  const [width, height] = [76, 20];
  const picture = document.createElementNS(SVG, "svg");
  mark(picture, "viewBox", `0 0 ${width} ${height}`);
  mark(picture, "width", String(width));
  mark(picture, "height", String(height));
  mark(picture, "role", "img");
  const line = document.createElementNS(SVG, "polyline");
  const dot = document.createElementNS(SVG, "circle");
  mark(dot, "r", "1.8");
  picture.append(line, dot);
  parent.append(picture);
  let painted = null;
  return (values) => {
    const told = values.join();
    if (told === painted) return;
    painted = told;
    picture.style.visibility = values.length > 1 ? "visible" : "hidden";
    mark(picture, "aria-label", values.length > 1
      ? `last ${values.length} answers: ${seconds(Math.min(...values))} to ${seconds(Math.max(...values))}`
      : "no answers yet");
    if (values.length < 2) return;
    const top = Math.max(...values);
    const at = values.map((value, i) => [
      2 + (i * (width - 5)) / (values.length - 1),
      height - 2 - ((height - 5) * value) / top,
    ]);
    mark(line, "points", at.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "));
    const [x, y] = at[at.length - 1];
    mark(dot, "cx", x.toFixed(1));
    mark(dot, "cy", y.toFixed(1));
  };
};

const COLUMNS = [
  ["route", "words"],
  ["breaker", "words"],
  ["ok", ""],
  ["failed", ""],
  ["p50", ""],
  ["p95", ""],
  ["latency", "wide"],
  ["tokens", "wide"],
  ["cost", "wide"],
  ["key", "words wide"],
  ["now", "words now"],
  ["controls", "words"],
];

const cell = (row, className, role = "cell") => {
  const made = make(row, "td", className);
  mark(made, "role", role);
  return made;
};

const routeRow = (family, first, ask) => {
  const row = make(null, "tr", "route");
  mark(row, "role", "row");
  const name = make(row, "th", "words");
  mark(name, "role", "rowheader");
  mark(name, "scope", "row");
  const provider = make(name, "span", "provider");
  const model = make(name, "span", "model");
  const space = make(name, "span", "model");
  const badge = make(cell(row, "words badges"), "span", "badge");
  const figures = {};
  for (const key of ["ok", "failed", "p50", "p95"]) {
    const td = cell(row, "figure");
    make(td, "span", "unit", key);
    figures[key] = make(td, "span");
  }
  const spark = sparkline(cell(row, "wide spark"));
  const tokens = cell(row, "wide");
  const cost = cell(row, "wide");
  const key = cell(row, "words wide key");
  const now = cell(row, "words now");
  const controls = cell(row, "words controls");
  const buttons = {};
  for (const action of ["reset", "switch", "pin"]) {
    buttons[action] = make(controls, "button");
    buttons[action].type = "button";
  }
  const rehearse = make(controls, "select", "rehearse");
  make(rehearse, "option", "", "rehearse…").value = "";
  for (const [value, text] of REHEARSALS) make(rehearse, "option", "", text).value = value;

  let shown = first;
  const its = `${first.provider} in ${family}`;
  buttons.reset.onclick = () => ask(buttons.reset, { action: "reset", name: shown.route });
  buttons.switch.onclick = () => ask(buttons.switch, { action: shown.is_off ? "on" : "off", name: shown.route });
  buttons.pin.onclick = () =>
    ask(buttons.pin, { action: shown.is_pinned ? "unpin" : "pin", family, name: shown.route });
  rehearse.onchange = () => {
    const fault = rehearse.value;
    if (fault) ask(rehearse, { action: "rehearse", name: shown.route, fault });
    rehearse.value = "";
  };
  mark(buttons.reset, "aria-label", `Reset ${its}`);
  mark(rehearse, "aria-label", `Rehearse a fault of ${its}`);

  const tick = (at) => {
    let word = shown.breaker;
    if (shown.until) word += shown.until > at ? ` ${left(shown.until - at)}` : ", probe due";
    put(badge, word);
    let said = shown.state;
    if (said && shown.back_at && !(shown.until && shown.until >= shown.back_at)) {
      said += shown.back_at > at ? `: back in ${left(shown.back_at - at)}` : ": may be back";
    }
    const keyWait = shown.key_until && shown.key_until > at ? ` ${left(shown.key_until - at)}` : "";
    put(key, shown.key + keyWait);
    put(now, said || (shown.error ? `last error ${shown.error}` : "–"));
    mark(now, "data-tone", said ? (shown.back_at ? "warn" : shown.is_off ? "quiet" : "bad") : shown.error ? "quiet" : "");
  };
  const paint = (route) => {
    shown = route;
    put(provider, route.provider);
    put(model, route.model);
    put(space, route.space);
    hide(space, !route.space);
    badge.className = `badge ${route.breaker.replace(" ", "-")}`;
    mark(row, "data-out", String(!route.is_serving));
    mark(row, "data-off", String(route.is_off || !route.can_switch));
    mark(row, "data-pinned", String(route.is_pinned));
    mark(row, "data-rehearsed", String(route.is_rehearsed));
    put(figures.ok, count(route.ok));
    put(figures.failed, count(route.failed));
    mark(figures.failed, "data-some", String(route.failed > 0));
    put(figures.p50, seconds(route.p50));
    put(figures.p95, seconds(route.p95));
    spark(route.recent);
    put(tokens, count(route.tokens));
    put(cost, money(route.cost));
    if (!buttons.reset.dataset.pending) put(buttons.reset, "reset");
    if (!buttons.switch.dataset.pending) put(buttons.switch, route.is_off ? "on" : "off");
    if (!buttons.pin.dataset.pending) put(buttons.pin, route.is_pinned ? "unpin" : "pin");
    mark(buttons.switch, "aria-label", `Switch ${route.is_off ? "on" : "off"} ${its}`);
    mark(buttons.pin, "aria-label", `${route.is_pinned ? "Unpin" : "Pin"} ${its}`);
    mark(buttons.pin, "aria-pressed", String(route.is_pinned));
    buttons.switch.disabled = !route.can_switch;
  };
  return { node: row, paint, tick };
};

const familyGroup = (first, ask, rows) => {
  const body = make(null, "tbody");
  mark(body, "role", "rowgroup");
  const top = make(body, "tr", "family");
  mark(top, "role", "row");
  const head = make(top, "th", "words");
  mark(head, "role", "columnheader");
  mark(head, "scope", "rowgroup");
  head.colSpan = COLUMNS.length;
  const name = make(head, "span", "name");
  const about = make(head, "span", "about");
  const pinned = make(head, "span", "chip");
  const list = make(null, "tbody");
  const paintRows = keyed(list, (route) => {
    const made = routeRow(first.name, route, ask);
    rows.add(made);
    return made;
  });
  // Rows have a body of their own, right after that of their head.
  return {
    node: body,
    paint(family) {
      put(name, family.name);
      put(about, family.about);
      put(pinned, `pinned to ${family.pinned}`);
      hide(pinned, !family.pinned);
      if (list.parentNode !== body.parentNode && body.parentNode) body.after(list);
      mark(list, "role", "rowgroup");
      paintRows(family.routes, (route) => route.route);
    },
    list,
  };
};

const routesTable = (parent, ask, rows) => {
  const scroll = make(parent, "div", "scroll");
  scroll.tabIndex = 0;
  mark(scroll, "role", "region");
  mark(scroll, "aria-label", "Routes by family");
  const table = make(scroll, "table", "routes");
  mark(table, "role", "table");
  mark(table, "aria-label", "Routes by family");
  const head = make(table, "thead");
  mark(head, "role", "rowgroup");
  const top = make(head, "tr");
  mark(top, "role", "row");
  for (const [text, className] of COLUMNS) {
    const column = make(top, "th", className, text);
    mark(column, "role", "columnheader");
    mark(column, "scope", "col");
  }
  const groups = new Map();
  return (families) => {
    hide(scroll, families.length === 0);
    for (const [name, group] of groups) {
      if (!families.some((family) => family.name === name)) {
        group.node.remove();
        group.list.remove();
        groups.delete(name);
      }
    }
    for (const family of families) {
      let group = groups.get(family.name);
      if (!group) {
        group = familyGroup(family, ask, rows);
        groups.set(family.name, group);
        table.append(group.node);
      }
      group.paint(family);
    }
  };
};

const jobCard = () => {
  const card = make(null, "div", "job");
  const headline = make(card, "div", "headline");
  const bar = make(card, "div", "bar");
  mark(bar, "role", "progressbar");
  mark(bar, "aria-valuemin", "0");
  mark(bar, "aria-valuemax", "100");
  const figures = make(card, "div");
  const legend = make(card, "div", "legend");
  const message = make(card, "div", "message");
  const keeps = make(card, "div", "quiet");
  let shown = null;
  const paintBar = keyed(bar, () => {
    const part = make(null, "i");
    return { node: part, paint: (share) => (part.style.width = `${share.width}%`) };
  });
  const paintLegend = keyed(legend, () => {
    const part = make(null, "span");
    const swatch = make(part, "i");
    const text = make(part, "span");
    return {
      node: part,
      paint(share) {
        swatch.className = `share${share.index % 6}`;
        put(text, `${share.route} ${share.percent} %`);
      },
    };
  });
  const tick = (at) => {
    const waits = shown.waiting_until && !shown.is_over && shown.waiting_until > at
      ? `goes on in ${left(shown.waiting_until - at)}`
      : "";
    put(message, [shown.message, waits].filter(Boolean).join(": "));
    hide(message, !message.textContent);
  };
  return {
    node: card,
    tick,
    paint(job) {
      shown = job;
      mark(card, "data-tone", job.tone);
      put(headline, job.headline);
      put(figures, job.figures);
      put(keeps, job.keeps);
      hide(keeps, !job.keeps);
      const rows = job.rows || job.done || 1;
      const made = job.shares.reduce((sum, share) => sum + share.rows, 0);
      const parts = job.shares.map((share, index) => ({
        ...share,
        index,
        width: (100 * share.rows) / rows,
        percent: Math.round((100 * share.rows) / (made || 1)),
      }));
      const rest = Math.max(0, job.done - made);
      const store = { route: "", index: -1, width: (100 * rest) / rows };
      paintBar([store, ...parts], (share) => share.route || "store");
      [...bar.children].forEach((part, i) => (part.className = i ? `share${(i - 1) % 6}` : "store"));
      paintLegend(parts, (share) => share.route);
      hide(legend, parts.length === 0);
      const percent = Math.min(100, Math.floor((100 * job.done) / rows));
      mark(bar, "aria-valuenow", String(percent));
      mark(bar, "aria-label", job.headline);
      hide(bar, !job.rows);
    },
  };
};

const callRow = () => {
  const row = make(null, "div", "call");
  mark(row, "role", "listitem");
  const name = make(row, "div", "who");
  const family = make(name, "b");
  const mode = make(name, "span", "quiet");
  const line = make(row, "div", "line");
  mark(line, "role", "img");
  const words = make(row, "div", "sentence");
  const total = make(row, "div", "total");
  let painted = "";
  return {
    node: row,
    paint(call) {
      if (painted === call.id + call.total) return; // a call that is over does not change
      painted = call.id + call.total;
      put(family, call.family);
      put(mode, call.mode === "sequential" ? "" : call.mode);
      put(total, seconds(call.total));
      mark(line, "aria-label", call.bars.map((bar) => bar.said).join("; ") || "no attempt");
      line.replaceChildren();
      line.style.height = `${Math.max(14, call.lanes * 8)}px`;
      const whole = Math.max(call.total, 1e-6);
      const height = 100 / call.lanes;
      for (const bar of call.bars) {
        const part = make(line, "i", `${bar.look}${bar.is_rehearsal ? " rehearsal" : ""}`);
        part.style.left = `${(100 * bar.start) / whole}%`;
        part.style.width = `${Math.max(0.6, (100 * bar.length) / whole)}%`;
        part.style.top = `${bar.lane * height}%`;
        part.style.height = `calc(${height}% - 1px)`;
        part.title = bar.said;
      }
      words.replaceChildren();
      for (const piece of call.words) {
        mark(make(words, "span", "", piece.text), "data-tone", piece.tone);
        words.append(" ");
      }
    },
  };
};

const troubleRow = () => {
  const row = make(null, "li");
  const verdict = make(row, "span", "verdict");
  const reason = make(row, "b");
  const advice = make(row, "span", "advice");
  const last = make(row, "span", "quiet");
  return {
    node: row,
    paint(trouble) {
      mark(row, "data-tone", trouble.tone);
      put(verdict, trouble.verdict);
      put(reason, `${trouble.reason} ×${count(trouble.count)}`);
      put(advice, trouble.advice);
      put(last, `last ${clock(trouble.at)} on ${trouble.route}: ${trouble.message}`);
    },
  };
};

// -- the page's colours: as dark as what lies behind

const luminance = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const found = getComputedStyle(at).backgroundColor.match(/[\d.]+/g);
    if (found && (found.length < 4 || Number(found[3]) > 0.5)) {
      const [red, green, blue] = found.map(Number);
      return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255;
    }
  }
  return 1;
};

const render = ({ model, el }) => {
  const root = make(el, "section", "shim-panel");
  mark(root, "aria-label", "Shim: providers and calls");
  const head = make(root, "header");
  const dot = make(head, "span", "dot");
  mark(dot, "aria-hidden", "true");
  const headline = make(head, "span", "headline");
  const figures = make(head, "span", "quiet figures");
  const stale = make(root, "div", "stale");
  mark(stale, "role", "alert");
  const rehearsals = make(root, "div", "rehearsals");
  const told = make(root, "div", "told");
  mark(told, "role", "status");
  const news = make(root, "div", "spoken");
  mark(news, "role", "status");
  mark(news, "aria-live", "polite");
  const jobs = make(root, "div", "jobs");
  const rows = new Set();
  const cards = new Set();
  const pending = new Map();
  const prefix = Math.random().toString(36).slice(2, 8);
  let number = 0;
  let skew = 0;
  let lastAt = 0;
  let gone = false;
  let lastSign = performance.now();
  let saidUntil = 0;
  const states = new Map();

  const say = (text, tone) => {
    put(told, text);
    mark(told, "data-tone", tone);
    saidUntil = performance.now() + SHOWN * 1000;
  };
  const ask = (control, request) => {
    if (control.dataset.pending || root.classList.contains("is-stale")) return;
    const id = `${prefix}-${++number}`;
    const isButton = control.tagName === "BUTTON";
    control.dataset.pending = id;
    mark(control, "aria-busy", "true");
    if (isButton) {
      control.style.minWidth = `${control.offsetWidth}px`;
      put(control, "requested…");
    }
    pending.set(id, { control, at: performance.now(), request });
    model.send({ type: "act", id, ...request });
  };
  const settle = ([id, trouble]) => {
    const asked = pending.get(id);
    if (!asked) return;
    pending.delete(id);
    delete asked.control.dataset.pending;
    asked.control.removeAttribute("aria-busy");
    asked.control.style.minWidth = "";
    const { action, name } = asked.request;
    say(trouble || `done: ${action}${name ? ` ${name}` : ""}`, trouble ? "bad" : "ok");
  };

  const endRehearsals = make(null, "button", "", "end rehearsal");
  endRehearsals.type = "button";
  mark(endRehearsals, "aria-label", "end rehearsal");
  endRehearsals.onclick = () => ask(endRehearsals, { action: "end rehearsal" });
  const rehearsalText = make(rehearsals, "span");
  rehearsals.append(endRehearsals);

  const paintRoutes = routesTable(root, ask, rows);
  const paintJobs = keyed(jobs, () => {
    const made = jobCard();
    cards.add(made);
    return made;
  });
  const callsBox = make(root, "section", "calls");
  make(callsBox, "h4", "", "Last calls: attempts in order");
  const calls = make(callsBox, "div", "list");
  mark(calls, "role", "list");
  const paintCalls = keyed(calls, callRow);
  const troublesBox = make(root, "section", "troubles");
  make(troublesBox, "h4", "", "Errors by verdict");
  const troubles = make(troublesBox, "ul");
  const paintTroubles = keyed(troubles, troubleRow);

  const hear = (name, state) => {
    const before = states.get(name);
    states.set(name, state);
    return before !== undefined && before !== state;
  };
  const announce = (shown) => {
    const heard = [];
    for (const family of shown.families) {
      for (const route of family.routes) {
        const name = `${family.name} ${route.route}`;
        if (hear(name, route.breaker)) heard.push(`${route.provider}: breaker ${route.breaker}`);
      }
    }
    for (const job of shown.jobs) if (hear(job.id, job.state)) heard.push(job.headline);
    if (heard.length) put(news, heard.slice(0, 4).join(". "));
  };

  const paint = () => {
    const shown = model.get("snapshot");
    if (!shown || !shown.families) return;
    gone = false;
    lastSign = performance.now();
    lastAt = shown.at;
    skew = Date.now() / 1000 - shown.at;
    mark(root, "data-seq", String(shown.seq));
    mark(root, "data-tone", shown.tone);
    put(headline, shown.headline);
    put(figures, shown.figures);
    shown.acks.forEach(settle);
    put(rehearsalText, `Rehearsal, not real: ${shown.rehearsals.join("; ")}`);
    if (!endRehearsals.dataset.pending) put(endRehearsals, "end rehearsal");
    hide(rehearsals, shown.rehearsals.length === 0);
    paintJobs(shown.jobs, (job) => job.id);
    paintRoutes(shown.families);
    hide(callsBox, shown.calls.length === 0);
    paintCalls(shown.calls, (call) => call.id);
    hide(troublesBox, shown.troubles.length === 0);
    paintTroubles(shown.troubles, (trouble) => `${trouble.verdict} ${trouble.reason}`);
    announce(shown);
    tick();
  };
  const tick = () => {
    const at = Date.now() / 1000 - skew;
    for (const part of [...rows, ...cards]) {
      if (part.node.isConnected) part.tick(at);
      else if (part.node.parentNode === null) (rows.delete(part), cards.delete(part));
    }
    const silent = (performance.now() - lastSign) / 1000;
    const isStale = silent > SILENCE || gone;
    root.classList.toggle("is-stale", isStale);
    hide(stale, !isStale);
    if (isStale && lastAt) put(stale, `No update since ${clock(lastAt)}: the kernel has ended, or it is blocked. What stands below is from then.`);
    const waiting = [...pending.values()].some((asked) => performance.now() - asked.at > PATIENCE * 1000);
    if (waiting && !isStale) say("requested: the kernel carries it out when its cell ends or awaits", "quiet");
    else if (performance.now() > saidUntil) put(told, "");
    hide(told, !told.textContent);
    const isDark = luminance(root) < 0.5;
    root.classList.toggle("dark", isDark);
  };

  const onLive = () => {
    gone = true; // until a snapshot or a sign of life comes: an ended kernel sends neither
    tick();
  };
  const onMessage = (message) => {
    if (message && message.type === "bye") {
      gone = true;
      tick();
    }
  };
  const onBeat = () => {
    gone = false;
    lastSign = performance.now();
    tick();
  };
  model.on("change:snapshot", paint);
  model.on("change:beats", onBeat);
  model.on("msg:custom", onMessage);
  model.on("comm_live_update", onLive);
  const themes = new MutationObserver(tick);
  themes.observe(document.body, { attributes: true });
  themes.observe(document.documentElement, { attributes: true });
  const timer = setInterval(tick, 1000);
  paint();
  model.send({ type: "hello" });
  return () => {
    clearInterval(timer);
    themes.disconnect();
    model.off("change:snapshot", paint);
    model.off("change:beats", onBeat);
    model.off("msg:custom", onMessage);
    model.off("comm_live_update", onLive);
  };
};

export default { render };
