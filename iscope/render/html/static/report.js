"use strict";
(() => {
  const root = document.documentElement;
  const toggle = document.getElementById("theme");
  const charts = [...document.querySelectorAll("script[type='application/json'][data-chart]")].map((script) => ({
    place: document.getElementById(script.dataset.chart),
    spec: JSON.parse(script.textContent),
  }));

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const current = () => root.dataset.theme || (dark.matches ? "dark" : "light");

  // Colours in a chart are names of the page's own colours, "@c0", so that one chart serves both themes.
  const coloured = (node, style) => {
    if (typeof node === "string") return node.startsWith("@") ? style.getPropertyValue("--" + node.slice(1)).trim() : node;
    if (Array.isArray(node)) return node.map((child) => coloured(child, style));
    if (node && typeof node === "object")
      return Object.fromEntries(Object.entries(node).map(([key, child]) => [key, coloured(child, style)]));
    return node;
  };

  const NARROW = 520, SMALL = 430;
  const axis = { gridcolor: "@grid", zerolinecolor: "@zero", linecolor: "@zero", tickcolor: "@zero", automargin: true };
  const dressed = (layout, width) => {
    const narrow = width < NARROW;
    const base = {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: "@ink", size: narrow ? 11 : 12, family: "system-ui, -apple-system, Segoe UI, Roboto, Arial, sans-serif" },
      margin: { l: narrow ? 44 : 56, r: narrow ? 10 : 18, t: 18, b: 44 },
      hoverlabel: { bgcolor: "@card", bordercolor: "@soft", font: { color: "@ink", size: 12 }, align: "left" },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: narrow ? 10.5 : 12 } },
      dragmode: false,
    };
    const made = { ...base, ...layout, margin: { ...base.margin, ...layout.margin }, legend: { ...base.legend, ...layout.legend } };
    for (const key of Object.keys(made)) if (/^[xy]axis\d*$/.test(key)) {
      made[key] = { ...axis, ...made[key] };
      if (made[key].title) made[key].title = { standoff: 8, ...made[key].title };
    }
    return made;
  };

  const config = { responsive: false, displaylogo: false, displayModeBar: false };
  const draw = () => {
    const style = getComputedStyle(root);
    return Promise.all(
      charts.map(({ place, spec }) => {
        const width = place.clientWidth;
        const data = spec.data.map((trace) => (width < SMALL && trace.meta ? { ...trace, ...trace.meta.small } : trace));
        const layout = coloured({ ...dressed(spec.layout, width), width, height: spec.height }, style);
        return window.Plotly.react(place, coloured(data, style), layout, config);
      }),
    );
  };

  const show = (theme) => {
    root.dataset.theme = theme;
    toggle.textContent = theme === "dark" ? "Light theme" : "Dark theme";
    root.dataset.drawn = "";
    return draw().then(() => (root.dataset.drawn = String(charts.length)));
  };

  let width = 0;
  let waiting = 0;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 120);
  });
  toggle.addEventListener("click", () => show(current() === "dark" ? "light" : "dark"));
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = current();
    if (before === "dark") show("light");
  });
  window.addEventListener("afterprint", () => before === "dark" && show("dark"));

  const number = (cell) => (cell.dataset.sort === undefined || cell.dataset.sort === "" ? null : Number(cell.dataset.sort));
  const sort = (table, column, header) => {
    const words = header.dataset.kind === "text";
    const before = header.getAttribute("aria-sort");
    const rising = before === "none" ? words : before === "descending";
    for (const other of table.querySelectorAll("th[aria-sort]")) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const sign = rising ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    const place = new Map(rows.map((row) => [row, Number(row.dataset.place)]));
    rows.sort((one, other) => {
      const [a, b] = [one.cells[column], other.cells[column]];
      if (words) return sign * a.textContent.localeCompare(b.textContent, "en") || place.get(one) - place.get(other);
      const [x, y] = [number(a), number(b)];
      if (x === null || y === null) return (x === null) - (y === null) || place.get(one) - place.get(other);
      return sign * (x - y) || place.get(one) - place.get(other);
    });
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = header.querySelector("button.sort");
      if (button) button.addEventListener("click", () => sort(table, column, header));
    });
  }

  const dialog = document.getElementById("definition");
  for (const mark of document.querySelectorAll("a.q")) {
    mark.addEventListener("click", (event) => {
      const term = document.getElementById(mark.hash.slice(1));
      if (!term || !dialog.showModal) return;
      event.preventDefault();
      dialog.querySelector("h2").textContent = term.querySelector("dt").textContent;
      dialog.querySelector("p").textContent = term.querySelector("dd").textContent;
      dialog.showModal();
    });
  }
  dialog.querySelector("button").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  width = window.innerWidth;
  show(current());
})();
