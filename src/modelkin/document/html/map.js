"use strict";
(() => {
  const canvas = document.getElementById("family-map");
  if (!canvas) return;
  const data = JSON.parse(document.getElementById("map-data").textContent);
  const says = document.getElementById("map-says");
  const pen = canvas.getContext("2d");
  const n = data.names.length;
  const { x, y, edges } = data;
  const near = Array.from({ length: n }, () => []);
  for (const [a, b] of edges) { near[a].push(b); near[b].push(a); }

  // What is seen: a place of the drawing in the middle of the canvas, and how large a unit is.
  const view = { x: 0, y: 0, scale: 1 };
  let current = -1;
  let asked = false;

  const bounds = () => {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < n; i += 1) {
      left = Math.min(left, x[i]); right = Math.max(right, x[i]);
      top = Math.min(top, y[i]); bottom = Math.max(bottom, y[i]);
    }
    return n ? [left, top, right, bottom] : [0, 0, 1, 1];
  };
  const size = () => [canvas.clientWidth, canvas.clientHeight];
  const showAll = () => {
    const [left, top, right, bottom] = bounds();
    const [width, height] = size();
    view.x = (left + right) / 2;
    view.y = (top + bottom) / 2;
    view.scale = Math.min(4, (width - 40) / Math.max(1, right - left), (height - 40) / Math.max(1, bottom - top));
    redraw();
  };
  const toScreen = (px, py) => {
    const [width, height] = size();
    return [(px - view.x) * view.scale + width / 2, (py - view.y) * view.scale + height / 2];
  };
  const toPlace = (sx, sy) => {
    const [width, height] = size();
    return [(sx - width / 2) / view.scale + view.x, (sy - height / 2) / view.scale + view.y];
  };
  const zoom = (factor, sx = size()[0] / 2, sy = size()[1] / 2) => {
    const [px, py] = toPlace(sx, sy);
    view.scale = Math.min(8, Math.max(0.005, view.scale * factor));
    const [qx, qy] = toPlace(sx, sy);
    view.x += px - qx;
    view.y += py - qy;
    redraw();
  };

  // All lines of one kind are one path, and so are all circles of one colour: ten thousand are drawn at once.
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    return { ink: of("--ink"), muted: of("--muted"), line: of("--line"), shared: of("--shared"), open: of("--open"), surface: of("--surface") };
  };
  const draw = () => {
    asked = false;
    const [width, height] = size();
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const colour = colours();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const radius = Math.min(7, Math.max(1.2, 5 * view.scale));
    const looks = [[colour.ink, []], [colour.shared, [6, 3]], [colour.muted, [2, 3]]];
    looks.forEach(([stroke, dash], kind) => {
      pen.beginPath();
      for (const [a, b, of, pointed] of edges) {
        if (of !== kind) continue;
        const [ax, ay] = toScreen(x[a], y[a]);
        const [bx, by] = toScreen(x[b], y[b]);
        if (Math.max(ax, bx) < 0 || Math.min(ax, bx) > width || Math.max(ay, by) < 0 || Math.min(ay, by) > height) continue;
        pen.moveTo(ax, ay);
        pen.lineTo(bx, by);
        if (pointed && radius > 3) {
          // From the parent to the child.
          const [fx, fy, tx, ty] = pointed === 1 ? [bx, by, ax, ay] : [ax, ay, bx, by];
          const angle = Math.atan2(ty - fy, tx - fx);
          const [hx, hy] = [tx - radius * Math.cos(angle), ty - radius * Math.sin(angle)];
          for (const side of [-0.45, 0.45]) {
            pen.moveTo(hx, hy);
            pen.lineTo(hx - 7 * Math.cos(angle + side), hy - 7 * Math.sin(angle + side));
          }
        }
      }
      pen.strokeStyle = stroke;
      pen.lineWidth = kind === 2 ? 1 : 1.4;
      pen.globalAlpha = kind === 2 ? 0.7 : 1;
      pen.setLineDash(radius > 2.5 ? dash : []);
      pen.stroke();
    });
    pen.setLineDash([]);
    pen.globalAlpha = 1;
    const seen = [];
    for (const flagged of [0, 1]) {
      pen.beginPath();
      for (let i = 0; i < n; i += 1) {
        if (data.flags[i] !== flagged) continue;
        const [px, py] = toScreen(x[i], y[i]);
        if (px < -9 || py < -9 || px > width + 9 || py > height + 9) continue;
        seen.push(i);
        // Seen from afar a circle is a dot, and a square is drawn in a tenth of the time.
        if (radius < 2.5) pen.rect(px - radius, py - radius, 2 * radius, 2 * radius);
        else {
          pen.moveTo(px + radius, py);
          pen.arc(px, py, radius, 0, 7);
        }
      }
      pen.fillStyle = flagged ? colour.open : colour.shared;
      pen.fill();
      if (flagged) { pen.strokeStyle = colour.ink; pen.lineWidth = 1.5; pen.stroke(); }
    }
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    // The chosen one is named first; a name that would lie on another, or on a circle, is left out.
    const named = seen.length <= 80;
    const taken = named ? seen.map((i) => {
      const [px, py] = toScreen(x[i], y[i]);
      return [px - radius, py, px + radius];
    }) : [];
    const label = (i, strong) => {
      const [px, py] = toScreen(x[i], y[i]);
      const name = data.names[i];
      const text = name.length > 34 && !strong ? `…${name.slice(-33)}` : name;
      const room = pen.measureText(text).width;
      const free = (left) => left >= 2 && left + room <= width && !taken.some(([l, t, r]) => Math.abs(t - py) < 14 && l < left + room && left < r);
      const sides = [px + radius + 4, px - radius - 4 - room];
      const left = sides.find(free) ?? (strong ? Math.max(2, Math.min(sides[0], width - room)) : null);
      if (left === null) return;
      taken.push([left, py, left + room]);
      pen.lineWidth = 3;
      pen.strokeStyle = colour.surface;
      pen.strokeText(text, left, py);
      pen.fillStyle = strong ? colour.ink : colour.muted;
      pen.fillText(text, left, py);
    };
    if (current >= 0) {
      const [px, py] = toScreen(x[current], y[current]);
      pen.beginPath();
      pen.arc(px, py, radius + 4, 0, 7);
      pen.strokeStyle = colour.ink;
      pen.lineWidth = 2;
      pen.stroke();
      label(current, true);
    }
    if (named) for (const i of seen) if (i !== current) label(i, false);
    canvas.dataset.drawn = String(Number(canvas.dataset.drawn || 0) + 1);
  };
  const redraw = () => {
    if (!asked) { asked = true; requestAnimationFrame(draw); }
  };

  const page = (i) => `models/${data.keys[i]}.html`;
  const tell = (i) => {
    const link = document.createElement("a");
    link.href = page(i);
    const name = document.createElement("bdi");
    name.textContent = data.names[i];
    link.append(name);
    says.replaceChildren(link, ` · ${data.words.relatives}: ${data.relatives[i]}`);
  };
  const choose = (i, move) => {
    current = i;
    canvas.dataset.current = data.keys[i];
    tell(i);
    if (move) {
      const [px, py] = toScreen(x[i], y[i]);
      const [width, height] = size();
      if (px < 30 || py < 30 || px > width - 30 || py > height - 30 || view.scale < 0.3) {
        view.scale = Math.max(view.scale, 0.8);
        view.x = x[i];
        view.y = y[i];
      }
    }
    redraw();
  };
  const at = (sx, sy) => {
    const [px, py] = toPlace(sx, sy);
    let [best, away] = [-1, (14 / view.scale) ** 2];
    for (let i = 0; i < n; i += 1) {
      const d = (x[i] - px) ** 2 + (y[i] - py) ** 2;
      if (d < away) [best, away] = [i, d];
    }
    return best;
  };

  // Pointer: drag to move, two fingers to zoom, tap or point to read.
  const held = new Map();
  let moved = false;
  const spot = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    held.set(event.pointerId, spot(event));
    canvas.setPointerCapture(event.pointerId);
    moved = false;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = spot(event);
    const before = held.get(event.pointerId);
    if (!before) {
      const i = at(...now);
      if (i >= 0 && i !== current) choose(i, false);
      return;
    }
    if (held.size === 2) {
      const other = [...held].find(([id]) => id !== event.pointerId)[1];
      const length = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]);
      zoom(length(now) / Math.max(1, length(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else {
      view.x -= (now[0] - before[0]) / view.scale;
      view.y -= (now[1] - before[1]) / view.scale;
    }
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) > 1) moved = true;
    held.set(event.pointerId, now);
    redraw();
  });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, (event) => held.delete(event.pointerId));
  canvas.addEventListener("click", (event) => {
    if (moved) return;
    const i = at(...spot(event));
    if (i >= 0) choose(i, false);
  });
  canvas.addEventListener("dblclick", () => { if (current >= 0) location.href = page(current); });
  canvas.addEventListener("wheel", (event) => {
    // A page scrolls; a map that was chosen zooms.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), ...spot(event));
  }, { passive: false });

  // Keys: neighbours along lines first, any model in that direction where there is none.
  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const towards = (step, among) => {
    let [best, cost] = [-1, Infinity];
    for (const i of among) {
      const [dx, dy] = [x[i] - x[current], y[i] - y[current]];
      const along = dx * step[0] + dy * step[1];
      const aside = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
      if (along > 0 && along >= aside && along + 2 * aside < cost) [best, cost] = [i, along + 2 * aside];
    }
    return best;
  };
  canvas.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (step && n) {
      event.preventDefault();
      if (current < 0) return choose(0, true);
      let next = towards(step, near[current]);
      if (next < 0) next = towards(step, data.names.keys());
      if (next >= 0) choose(next, true);
    } else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "Home" || event.key === "0") { event.preventDefault(); showAll(); }
    else if (event.key === "Enter" && current >= 0) location.href = page(current);
  });
  const acts = { in: () => zoom(1.4), out: () => zoom(1 / 1.4), all: showAll };
  for (const button of document.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", acts[button.dataset.do]);
  }

  // Search: every letter narrows; a hit is a link, and the map goes to the first.
  const input = document.getElementById("search");
  const list = document.getElementById("found");
  const state = document.getElementById("search-state");
  const lower = data.names.map((name) => name.toLowerCase());
  const most = 12;
  const look = () => {
    const text = input.value.trim().toLowerCase();
    const hits = [];
    let more = 0;
    for (let i = 0; text && i < n; i += 1) {
      if (!lower[i].includes(text)) continue;
      if (hits.length < most) hits.push(i);
      else more += 1;
    }
    list.replaceChildren(...hits.map((i) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = page(i);
      const name = document.createElement("bdi");
      name.textContent = data.names[i];
      link.append(name);
      link.addEventListener("focus", () => choose(i, true));
      item.append(link);
      return item;
    }));
    state.textContent = text && !hits.length ? data.words["search-none"] : more ? data.words["search-many"].replace("{n}", more) : "";
    if (hits.length) choose(hits[0], true);
  };
  input.addEventListener("input", look);
  input.form.addEventListener("submit", (event) => { event.preventDefault(); look(); });

  addEventListener("resize", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  showAll();
})();
