// Draws the charts of a report and fills its tables. The data are in the page; nothing is loaded.
(function () {
  'use strict';
  const report = JSON.parse(document.getElementById('report-data').textContent);
  const figures = Array.from(document.querySelectorAll('figure[data-chart]'));
  const drawn = new Map(); // chart -> {view, width}
  const filter = { service: null, vnet: null };
  let busy = 0; // redraws under way
  window.parsimon = { drawn: drawn, ready: false, errors: [], rows: rows, idle: () => busy === 0 };

  // An answer's columns become rows: objects by column name.
  const rowsOf = {};
  function rows(name) {
    if (!rowsOf[name]) {
      const a = report.data[name] || { columns: [], values: [] };
      const columns = a.values.map(v => Array.isArray(v) ? v : v.at.map(i => i < 0 ? null : v.of[i]));
      const n = columns.length ? columns[0].length : 0;
      rowsOf[name] = Array.from({ length: n }, (_, i) => {
        const row = {};
        a.columns.forEach((c, k) => { row[c] = columns[k][i]; });
        return row;
      });
    }
    return rowsOf[name];
  }

  // Light and dark.
  const systemDark = window.matchMedia('(prefers-color-scheme: dark)');
  let chosen = null;
  const dark = () => chosen ? chosen === 'dark' : systemDark.matches;
  document.getElementById('theme').addEventListener('click', () => {
    chosen = dark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = chosen;
    drawAll();
  });
  systemDark.addEventListener('change', () => { if (!chosen) drawAll(); });

  // A specification with its widths, its rows and what a narrow page needs.
  function prepare(figure, width) {
    const id = figure.dataset.chart;
    const spec = JSON.parse(JSON.stringify(report.specs[id]));
    const narrow = width < 480;
    (function set(node) {
      if (!node || typeof node !== 'object') return;
      if (node.width === 'container') node.width = width;
      if (node.height === 'container') node.height = Math.round(Math.min(width * 0.86, 520));
      if (Array.isArray(node.params) && matchMedia('(pointer: coarse)').matches) {
        // A finger that moves over a chart scrolls the page; the zoom buttons remain.
        node.params.forEach(p => { if (p.bind === 'scales') Object.assign(p.select, { translate: false }); });
      }
      Object.values(node).forEach(set);
    })(spec);
    spec.datasets = {};
    (function bind(node) {
      if (!node || typeof node !== 'object') return;
      if (node.data && node.data.name) spec.datasets[node.data.name] = rows(node.data.name);
      Object.values(node).forEach(bind);
    })(report.specs[id]);
    if (spec.params) spec.params.forEach(p => { if (p.name in filter) p.value = filter[p.name]; });
    const config = JSON.parse(JSON.stringify(dark() ? report.themes.dark : report.themes.light));
    config.legend.columns = narrow ? 3 : Math.max(3, Math.floor((width - 60) / 100));
    if (id === 'slowdown_cdf') config.legend.columns = width > 620 ? 5 : 3;
    if (narrow) {
      Object.assign(config.axis, { labelFontSize: 10.5, titleFontSize: 11, labelLimit: id.includes('link') || id.includes('load') ? 172 : 120 });
      if (id === 'link_load_and_tail') config.legend.columns = 1;
      if (id === 'slowdown_cdf') config.legend.columns = 2;
      Object.assign(config.legend, { labelFontSize: 11, titleFontSize: 11, columnPadding: 8, titleOrient: 'top' });
    }
    return { spec: spec, config: config };
  }

  async function draw(figure) {
    const id = figure.dataset.chart, holder = figure.querySelector('.view');
    const width = Math.floor(holder.clientWidth);
    if (!width) return;
    const old = drawn.get(id);
    const scrolled = holder.offsetHeight;
    if (old) holder.style.minHeight = scrolled + 'px'; // the page does not jump
    const p = prepare(figure, width);
    const result = await window.vegaEmbed(holder, p.spec, {
      config: p.config, renderer: 'svg', actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: id, tooltip: { theme: dark() ? 'dark' : 'light' }, logLevel: window.vega.Error,
    });
    if (old) { old.finalize(); holder.style.minHeight = ''; }
    drawn.set(id, { view: result.view, width: width, finalize: result.finalize });
    const svg = holder.querySelector('svg.marks');
    if (svg) svg.setAttribute('aria-label', report.specs[id].description);
    note(figure);
  }

  async function drawAll() {
    window.parsimon.ready = false;
    for (const figure of figures) {
      try {
        await draw(figure);
      } catch (error) {
        window.parsimon.errors.push(figure.dataset.chart + ': ' + error.message);
        console.error(figure.dataset.chart, error);
      }
      await new Promise(done => setTimeout(done)); // the page answers between charts
    }
    window.parsimon.ready = true;
  }

  // The rows of a figure's table under the filter.
  function filtered(figure, all) {
    if (figure.dataset.filtered !== 'true') return all;
    if (figure.dataset.chart === 'percentiles_by_group' || figure.dataset.chart === 'sampled_percentiles') {
      return all.filter(r => (filter.service === null || r.service === filter.service) && (filter.vnet === null || r.vnet === filter.vnet));
    }
    return all.filter(r => r.service === filter.service && r.vnet === filter.vnet);
  }

  function note(figure) {
    const all = rows(figure.dataset.chart.split('.')[0]);
    figure.querySelector('.empty').hidden = filtered(figure, all).length > 0;
  }

  // Filter.
  const form = document.getElementById('filter');
  async function applyFilter() {
    busy++;
    try {
      await showFiltered();
    } finally {
      busy--;
    }
  }
  async function showFiltered() {
    for (const key of ['service', 'vnet']) {
      const select = document.getElementById('filter-' + key);
      const option = select && select.selectedOptions[0];
      filter[key] = option && option.value !== 'all' ? option.dataset.name : null;
    }
    for (const figure of figures) {
      if (figure.dataset.filtered !== 'true') continue;
      const at = drawn.get(figure.dataset.chart);
      if (at) {
        at.view.signal('service', filter.service).signal('vnet', filter.vnet);
        await at.view.runAsync();
      }
      note(figure);
      const table = figure.querySelector('details.table');
      if (table && table.open) fill(figure);
    }
  }
  if (form) {
    form.addEventListener('change', applyFilter);
    form.addEventListener('reset', () => setTimeout(applyFilter));
    form.addEventListener('submit', e => e.preventDefault());
  }

  // Zoom by buttons and keys: what the wheel does with Ctrl held.
  function zoom(figure, how) {
    const at = drawn.get(figure.dataset.chart), svg = figure.querySelector('svg.marks');
    if (!at || !svg) return;
    if (how === 'reset') { draw(figure); return; }
    const box = svg.getBoundingClientRect();
    const x = box.left + box.width * 0.55, y = box.top + Math.min(box.height * 0.45, 150);
    const target = document.elementFromPoint(x, y);
    (svg.contains(target) ? target : svg).dispatchEvent(new WheelEvent('wheel', { deltaY: how === 'in' ? -260 : 260, ctrlKey: true, clientX: x, clientY: y, bubbles: true, cancelable: true }));
  }
  figures.forEach(figure => {
    if (!figure.querySelector('.zoom')) return;
    figure.querySelectorAll('[data-zoom]').forEach(b => b.addEventListener('click', () => zoom(figure, b.dataset.zoom)));
    figure.querySelector('.view').addEventListener('keydown', e => {
      const how = { '+': 'in', '=': 'in', '-': 'out', '0': 'reset' }[e.key];
      if (how && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); zoom(figure, how); }
    });
  });

  // Tables.
  const most = 300;
  function text(v) {
    if (v === null || v === undefined) return '';
    if (typeof v === 'number' && !Number.isInteger(v)) return String(Number(v.toPrecision(5)));
    return String(v);
  }
  function fill(figure) {
    const all = filtered(figure, rows(figure.dataset.table)), holder = figure.querySelector('.scroll');
    const columns = report.data[figure.dataset.table].columns;
    const table = document.createElement('table'), head = table.createTHead().insertRow(), body = table.createTBody();
    columns.forEach(c => {
      const th = document.createElement('th');
      th.scope = 'col'; th.textContent = c;
      if (all.some(r => typeof r[c] === 'number')) th.className = 'n';
      head.append(th);
    });
    all.slice(0, most).forEach(r => {
      const tr = body.insertRow();
      columns.forEach(c => {
        const td = tr.insertCell();
        td.textContent = text(r[c]);
        if (typeof r[c] === 'number') td.className = 'n';
      });
    });
    holder.replaceChildren(table);
    const status = figure.querySelector('.status');
    status.textContent = all.length > most ? 'the first ' + most + ' of ' + all.length + ' rows; CSV has all' : all.length + ' rows';
  }
  function csv(figure) {
    const columns = report.data[figure.dataset.table].columns;
    const cell = v => {
      if (v === null || v === undefined) return '';
      let s = String(v);
      if (typeof v === 'string' && /^[=+\-@\t\r]/.test(s)) s = "'" + s; // no formula for a spreadsheet
      return /[",\r\n]/.test(s) ? '"' + s.replace(/"/g, '""') + '"' : s;
    };
    return [columns].concat(filtered(figure, rows(figure.dataset.table)).map(r => columns.map(c => r[c]))).map(r => r.map(cell).join(',')).join('\r\n') + '\r\n';
  }
  async function copy(figure) {
    const status = figure.querySelector('.status'), value = csv(figure);
    try {
      await navigator.clipboard.writeText(value);
    } catch (_) { // a file:// page may not have the clipboard
      const area = document.createElement('textarea');
      area.value = value;
      document.body.append(area);
      area.select();
      document.execCommand('copy');
      area.remove();
    }
    status.textContent = 'copied';
  }
  function save(figure) {
    const a = document.createElement('a'), url = URL.createObjectURL(new Blob([csv(figure)], { type: 'text/csv' }));
    a.href = url;
    a.download = figure.dataset.table + '.csv';
    a.click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
  figures.forEach(figure => {
    const details = figure.querySelector('details.table');
    if (!details) return;
    details.addEventListener('toggle', () => { if (details.open) fill(figure); });
    figure.querySelector('[data-copy]').addEventListener('click', () => copy(figure));
    figure.querySelector('[data-save]').addEventListener('click', () => save(figure));
  });
  window.parsimon.csv = id => csv(figures.find(f => f.dataset.chart === id));

  let resizing;
  new ResizeObserver(() => {
    clearTimeout(resizing);
    resizing = setTimeout(() => figures.forEach(f => {
      const at = drawn.get(f.dataset.chart), width = Math.floor(f.querySelector('.view').clientWidth);
      if (at && width && Math.abs(at.width - width) > 3) draw(f);
    }), 150);
  }).observe(document.querySelector('main'));

  const started = performance.now();
  drawAll().then(() => {
    window.parsimon.milliseconds = performance.now() - started;
    if (window.parsimon.errors.length) {
      const p = document.getElementById('failure');
      p.textContent = 'Some charts could not be drawn: ' + window.parsimon.errors.join('; ');
      p.hidden = false;
    }
  });
})();
