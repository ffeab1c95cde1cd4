"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  root.classList.add("js");

  // Light or dark: the reader's choice for as long as the page is open.
  document.getElementById("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  // Tables: cells sort by their number, cells without one come last, in both directions.
  for (const table of all("table.sortable")) {
    const body = table.tBodies[0];
    const heads = all("thead th", table);
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => {
        const cell = row.cells[column];
        const text = cell.textContent.trim();
        return { number: "v" in cell.dataset ? Number(cell.dataset.v) : NaN, text: text === "-" ? "" : text };
      };
      const rows = [...body.rows].map((row) => ({ row, key: key(row) }));
      const numbers = rows.some((item) => !Number.isNaN(item.key.number));
      const empty = (item) => (numbers ? Number.isNaN(item.key.number) : item.key.text === "");
      rows.sort((a, b) => {
        if (empty(a) || empty(b)) return empty(a) - empty(b);
        const order = numbers ? a.key.number - b.key.number : a.key.text.localeCompare(b.key.text);
        return down ? -order : order;
      });
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map((item) => item.row));
    }));
  }

  // Measure and role: the pictures are all in the page, one of each kind is shown.
  for (const tools of all("form.tools")) {
    const { measure, role } = tools.elements;
    const figures = all("figure", tools.parentElement).filter((figure) => figure.querySelector(".panel"));
    const show = () => {
      if (role.value !== "" && measure.value === "shared") measure.value = "effect"; // a verdict is on components
      for (const figure of figures) {
        const drawn = all(".panel", figure);
        const wanted = drawn.some((panel) => panel.dataset.measure === measure.value) ? measure.value : drawn[0].dataset.measure;
        for (const panel of drawn) panel.hidden = panel.dataset.measure !== wanted;
        for (const group of all("g[data-series]", figure)) {
          group.classList.toggle("dim", role.value !== "" && group.dataset.series !== role.value);
        }
      }
    };
    tools.addEventListener("change", show);
    tools.addEventListener("submit", (event) => event.preventDefault());
  }

  // Marks: pointing, tapping or arrow keys say their numbers.
  for (const svg of all("svg.probe")) {
    const readout = svg.closest("figure").querySelector(".readout");
    const marks = all("[data-note]", svg);
    let current = null;
    const choose = (mark) => {
      if (current) current.classList.remove("on");
      current = mark;
      mark.classList.add("on");
      readout.textContent = mark.dataset.note;
    };
    for (const kind of ["pointermove", "click"]) {
      svg.addEventListener(kind, (event) => {
        const mark = event.target.closest("[data-note]");
        if (mark && mark !== current) choose(mark);
      });
    }
    const at = (mark) => [Number(mark.dataset.x), Number(mark.dataset.y)];
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    svg.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step || !marks.length) return;
      event.preventDefault();
      if (!current) return choose(marks[0]);
      const [x, y] = at(current);
      const cost = (mark) => {
        const [dx, dy] = [at(mark)[0] - x, at(mark)[1] - y];
        const along = dx * step[0] + dy * step[1];
        const aside = Math.abs(dx * step[1]) + Math.abs(dy * step[0]);
        return along > 0 ? along + 1000 * aside : Infinity;
      };
      const next = marks.reduce((best, mark) => (cost(mark) < cost(best) ? mark : best), current);
      if (next !== current) choose(next);
    });
  }

  // Heat maps: a cell is found from its place, its number from the data of its figure.
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (whole, key) => (key in values ? values[key] : whole));
  for (const svg of all("svg.grid-probe")) {
    const figure = svg.closest("figure");
    const map = JSON.parse(figure.querySelector("script").textContent);
    const readout = figure.querySelector(".readout");
    const cursor = svg.querySelector(".cursor");
    const [cell, left, top] = ["cell", "left", "top"].map((key) => Number(svg.dataset[key]));
    const paired = new Set(map.path.map((pair) => pair.join(" ")));
    let place = [-1, -1];
    const choose = (row, column) => {
      if (row < 0 || column < 0 || row >= map.candidate.length || column >= map.base.length) return;
      place = [row, column];
      svg.classList.add("active");
      cursor.setAttribute("x", column);
      cursor.setAttribute("y", row);
      const [candidate, base, z] = [map.candidate[row], map.base[column], map.scores[row][column]];
      const text = fill(z === null ? map.words.cell_missing : map.words.cell, { candidate, base, z });
      readout.textContent = paired.has(`${candidate} ${base}`) ? `${text} (${map.words.on_path})` : text;
    };
    for (const kind of ["pointermove", "click"]) {
      svg.addEventListener(kind, (event) => {
        const box = svg.getBoundingClientRect();
        const scale = svg.viewBox.baseVal.width / box.width;
        const x = (event.clientX - box.left) * scale - left;
        const y = (event.clientY - box.top) * scale - top;
        choose(Math.floor(y / cell), Math.floor(x / cell));
      });
    }
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    svg.addEventListener("keydown", (event) => {
      const step = steps[event.key];
      if (!step) return;
      event.preventDefault();
      if (place[0] < 0) choose(0, 0);
      else choose(place[0] + step[0], place[1] + step[1]);
    });
  }

  // What scrolls sideways can be reached with the keyboard; what does not is no stop on the way.
  const stops = () => {
    for (const frame of all(".scroll")) {
      if (frame.scrollWidth > frame.clientWidth + 1) frame.tabIndex = 0;
      else frame.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", stops);
  all("details").forEach((item) => item.addEventListener("toggle", stops));
  stops();

  // A link to a closed section opens it.
  const reveal = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const closed = target && target.closest("details");
    if (closed) { closed.open = true; target.scrollIntoView(); }
  };
  addEventListener("hashchange", reveal);
  for (const link of all('a[href^="#"]')) link.addEventListener("click", () => setTimeout(reveal));
  reveal();

  // On paper nothing can be opened.
  addEventListener("beforeprint", () => all("details.print").forEach((item) => { item.open = true; }));
})();
