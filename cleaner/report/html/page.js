"use strict";
/* Unpacks the data of the page, and makes its tables sort, filter, copy and open. It asks for nothing from elsewhere. */
(() => {
  const ROWS = 200, FILTERED = 6;
  const NUMBERS = new Set(["number", "bytes", "ratio", "moment", "span"]);
  const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "m"], [1000, "s"], [1, "ms"]];
  const ACTIONS = {delete: "deleted", compact: "compacted", keep: "kept"};
  const SVG = "http://www.w3.org/2000/svg";
  const said = document.getElementById("said");

  const make = (name, attributes = {}, ...inner) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inner);
    return element;
  };
  const draw = (name, attributes, ...inner) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inner);
    return element;
  };
  const bdi = text => make("bdi", {}, text);

  const grouped = value => BigInt(value).toLocaleString("en-US");
  const size = value => {
    const bytes = Number(value), power = Math.min(Math.floor(Math.log2(Math.max(Math.abs(bytes), 1)) / 10), 6);
    if (!power) return `${grouped(value)} byte${bytes === 1 ? "" : "s"}`;
    return `${(bytes / 1024 ** power).toFixed(1)} ${["", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power]}`;
  };
  const moment = value => {
    const ms = Number(value);
    return ms >= 0 && ms < 253402300799000 ? new Date(ms).toISOString().slice(0, 19) + "Z" : "never";
  };
  const span = value => {
    let ms = Number(value);
    if (ms <= 0) return "0ms";
    const place = UNITS.findIndex(([unit]) => ms >= unit), [unit, word] = UNITS[place], next = UNITS[place + 1];
    const rest = ms % unit;
    return `${Math.floor(ms / unit)}${word}` + (next && rest >= next[0] ? ` ${Math.floor(rest / next[0])}${next[1]}` : "");
  };
  const worded = (kind, value) => {
    switch (kind) {
      case "bytes": return size(value);
      case "ratio": return `${Math.round(value * 100)}%`;
      case "moment": return moment(value);
      case "span": return span(value);
      case "number": return Number.isInteger(Number(value)) ? grouped(value) : Number(value).toFixed(1);
      default: return String(value);
    }
  };
  const filled = (cell, kind, value) => {
    if (value === null || value === undefined || value === "") return cell;
    if (NUMBERS.has(kind)) cell.append(make("data", {value}, worded(kind, value)));
    else if (kind === "action") cell.append(verdict(value));
    else if (kind === "code") cell.append(make("span", {class: "code"}, value));
    else cell.append(bdi(value));
    return cell;
  };
  const verdict = action => make("span", {class: `verdict ${action}`}, action);

  class Table {
    constructor(section, data, segments) {
      this.section = section;
      this.table = section.querySelector("table[data-table]");
      this.columns = data.columns;
      this.opens = data.opens && segments;
      this.length = this.columns[0].values.length;
      this.order = Array.from({length: this.length}, (_, row) => row);
      this.shown = ROWS;
      this.open = new Set();
      this.sorted = null;
      this.texts = null;
      this.title = section.querySelector("h2").textContent;
      this.tools();
      this.heads();
      if (this.opens && this.length === 1) this.open.add(0);
      this.fill();
    }

    tools() {
      const rows = count => `${grouped(count)} row${count === 1 ? "" : "s"}`;
      this.rows = () => this.order.length === this.length ? rows(this.length) : `${grouped(this.order.length)} of ${rows(this.length)}`;
      const tools = this.section.querySelector(".tools"), id = `filter-${this.section.id}`;
      const input = make("input", {id, type: "search", autocomplete: "off", spellcheck: "false"});
      const copy = make("button", {type: "button"}, "Copy as a table");
      this.count = make("span", {class: "note"});
      let waiting = 0;
      input.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => this.filter(input.value), 120);
      });
      copy.addEventListener("click", () => this.copy());
      if (this.length >= FILTERED) tools.append(make("label", {for: id}, "Filter", make("span", {class: "away"}, ` ${this.title}`)), input);
      tools.append(copy, this.count);
      tools.hidden = false;
    }

    heads() {
      [...this.table.tHead.rows[0].cells].forEach((cell, place) => {
        const button = make("button", {type: "button"}, cell.textContent);
        cell.replaceChildren(button);
        button.addEventListener("click", () => this.sort(place));
      });
    }

    filter(text) {
      const words = text.toLowerCase().split(/\s+/).filter(Boolean);
      this.texts ??= Array.from({length: this.length}, (_, row) =>
        this.columns.filter(({kind}) => !NUMBERS.has(kind)).map(({values}) => values[row] ?? "").join(" ").toLowerCase());
      this.order = [];
      for (let row = 0; row < this.length; row++)
        if (words.every(word => this.texts[row].includes(word))) this.order.push(row);
      if (this.sorted) this.arrange();
      this.shown = ROWS;
      this.fill();
      said.textContent = this.rows();
    }

    sort(place) {
      const down = NUMBERS.has(this.columns[place].kind);
      const same = this.sorted && this.sorted.place === place;
      this.sorted = {place, down: same ? !this.sorted.down : down};
      [...this.table.tHead.rows[0].cells].forEach((cell, other) => {
        if (other === place) cell.setAttribute("aria-sort", this.sorted.down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      });
      this.arrange();
      this.fill();
      said.textContent = `Sorted by ${this.columns[place].heading}, ${this.sorted.down ? "greatest" : "least"} first`;
    }

    arrange() {
      const {kind, values} = this.columns[this.sorted.place], sign = this.sorted.down ? -1 : 1;
      const known = row => values[row] !== null && values[row] !== undefined && values[row] !== "";
      const compare = NUMBERS.has(kind)
        ? (one, other) => Number(values[one]) - Number(values[other])
        : (one, other) => String(values[one]).localeCompare(String(values[other]), "en", {numeric: true});
      this.order.sort((one, other) => known(other) - known(one) || (known(one) ? sign * compare(one, other) : 0) || one - other);
    }

    fill() {
      const body = this.table.tBodies[0], rows = [];
      for (const row of this.order.slice(0, this.shown)) {
        rows.push(this.row(row));
        if (this.open.has(row)) rows.push(this.inside(row));
      }
      const left = this.order.length - Math.min(this.shown, this.order.length);
      if (left) {
        const more = make("button", {type: "button", class: "more-rows"}, `Show ${grouped(left)} more rows`);
        more.addEventListener("click", () => {
          const from = this.shown;
          this.shown = Infinity;
          this.fill();
          this.table.tBodies[0].rows[from]?.querySelector("button")?.focus();
        });
        rows.push(make("tr", {}, make("td", {colspan: this.columns.length, class: "more"}, more)));
      }
      body.replaceChildren(...rows);
      this.totals();
      this.count.textContent = this.rows();
    }

    row(row) {
      const cells = this.columns.map(({kind, values}, place) => {
        if (place) return filled(make("td", {class: kind}), kind, values[row]);
        const head = make("th", {scope: "row", class: kind});
        if (!this.opens) return filled(head, kind, values[row]);
        const button = make("button", {type: "button", class: "opens", "aria-expanded": this.open.has(row)}, bdi(values[row]));
        button.addEventListener("click", () => this.toggle(row, button));
        head.append(button);
        return head;
      });
      return make("tr", {}, ...cells);
    }

    toggle(row, button) {
      const line = button.closest("tr");
      if (this.open.delete(row)) line.nextElementSibling.remove();
      else {
        this.open.add(row);
        line.after(this.inside(row));
      }
      button.setAttribute("aria-expanded", this.open.has(row));
    }

    inside(row) {
      const cell = make("td", {colspan: this.columns.length, class: "inside"});
      cell.append(...this.opens.shown(row, this.columns[0].values[row]));
      return make("tr", {}, cell);
    }

    totals() {
      const foot = make("tr"), all = this.order.length === this.length;
      if (!this.columns.some(({total}) => total)) return;
      this.columns.forEach(({kind, total, values}, place) => {
        if (!place) return foot.append(make("th", {scope: "row"}, all ? "All" : "Filtered"));
        const cell = make("td", {class: kind});
        if (total) filled(cell, kind, String(this.order.reduce((sum, row) => sum + BigInt(values[row] ?? 0), 0n)));
        foot.append(cell);
      });
      this.table.tFoot?.remove();
      this.table.append(make("tfoot", {}, foot));
    }

    async copy() {
      const clean = value => String(value ?? "").replace(/[\t\r\n]+/g, " ");
      const lines = [this.columns.map(({heading}) => heading), ...this.order.map(row => this.columns.map(({values}) => clean(values[row])))];
      const text = lines.map(line => line.join("\t")).join("\n") + "\n";
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const area = make("textarea");
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      said.textContent = this.count.textContent = `${this.rows()} copied, with exact figures`;
    }
  }

  class Segments {
    constructor(packed, now) {
      this.packed = packed;
      this.now = now;
      this.figures = null;
    }

    /* The figures of all sentences lie in one list: where those of each segment begin. */
    begins() {
      const {reason, reasons} = this.packed, found = new Uint32Array(reason.length + 1);
      for (let place = 0; place < reason.length; place++)
        found[place + 1] = found[place] + reasons[reason[place]][2].length - 1;
      return found;
    }

    of(partition) {
      const {starts, base, bytes, newest, until, reason, reasons, limits, figures} = this.packed, found = [];
      this.figures ??= this.begins();
      let offset = 0, time = 0;
      for (let place = starts[partition]; place < starts[partition + 1]; place++) {
        const [action, code, words, limit] = reasons[reason[place]];
        const first = typeof base[place] === "string" ? base[place] : (offset += base[place]);
        const step = newest[place], at = step === null || typeof step === "string" ? step : (time += step);
        const end = until[place], due = end === null || typeof end === "string" ? end : (typeof at === "number" ? at : 0) + end;
        const text = words.map((word, index) => index ? figures[this.figures[place] + index - 1] + word : word).join("");
        found.push({base: first, bytes: bytes[place], newest: at, until: due, action, code, text, limit: limit === null ? null : limits[limit]});
      }
      return found;
    }

    *shown(partition, name) {
      const all = this.of(partition), pins = this.packed.pins[partition];
      if (!all.length) {
        yield make("p", {}, "No segment of this partition is known.");
        return;
      }
      yield* this.axis(all, pins, name);
      yield this.table(all, name);
    }

    *axis(all, pins, name) {
      const known = all.filter(({newest, bytes}) => typeof newest === "number" && newest >= 0 && bytes);
      const isTimed = known.length === all.filter(({bytes}) => bytes).length && known.length > 1;
      const ahead = known.filter(({newest}) => newest > this.now).length;
      const byTime = isTimed && !ahead;
      const limit = all.find(({limit}) => limit && limit[0] === "retention.ms" && Number(limit[1]) >= 0)?.limit;
      const cut = limit && byTime ? this.now - Number(limit[1]) : null;
      const to = byTime ? this.now : all.length, oldest = byTime ? known[0].newest : 0;
      const isBorn = typeof pins[5] === "number" && pins[5] >= 0 && pins[5] <= oldest;
      const start = isBorn ? pins[5] : oldest - (to - oldest) / Math.max(known.length, 8);
      const from = byTime ? Math.min(start, cut ?? Infinity) : 0;
      const x = value => 8 + 984 * (value - from) / Math.max(to - from, 1);
      const picture = draw("svg", {class: "axis", viewBox: "0 0 1000 90", preserveAspectRatio: "none", role: "img"});
      const places = new Map();
      let before = byTime ? start : 0;
      all.forEach((segment, place) => {
        const end = byTime ? (typeof segment.newest === "number" && segment.bytes ? Math.max(segment.newest, before) : before) : place + 1;
        const left = x(byTime ? before : place), right = x(end);
        const height = {delete: 22, compact: 30, keep: 38}[segment.action];
        const isOpen = byTime && !isBorn && segment === known[0];
        picture.append(draw("rect", {class: isOpen ? `${segment.action} open` : segment.action, x: left, y: 60 - height, width: Math.max(right - left, 1.5), height}));
        places.set(segment, left);
        before = end;
      });
      const line = (at, kind) => picture.append(draw("line", {class: kind, x1: at, x2: at, y1: 6, y2: 66}));
      const told = [];
      if (byTime) {
        line(x(this.now), "pin");
        told.push(`now, ${moment(this.now)}`);
        if (cut !== null) {
          line(x(cut), "limit");
          told.push(`retention.ms=${span(limit[1])} ago, ${moment(cut)} (solid line)`);
        }
      }
      const names = ["log start offset", null, "high watermark", "last stable offset", "first dirty offset"];
      names.forEach((word, place) => {
        const offset = pins[place];
        if (!word || offset === null || offset === undefined) return;
        const at = all.findLast(segment => Number(segment.base) <= Number(offset));
        if (at && Number(offset) < Number(pins[1]) && Number(offset) > Number(all[0].base)) line(places.get(at), "pin");
        told.push(`${word} ${grouped(offset)}`);
      });
      const sums = Object.keys(ACTIONS).map(action => [action, all.filter(one => one.action === action)]).filter(([, of]) => of.length);
      const words = sums.map(([action, of]) => `${of.length} ${ACTIONS[action]}`).join(", ");
      picture.append(draw("title", {}, `Segments of ${name}, ${byTime ? "by time" : "in order"}: ${words}`));
      const ends = `the first bar, dashed, ends at ${moment(oldest)}, and nobody knows when it began`;
      const first = byTime ? (isBorn || from < start ? moment(from) : ends) : `offset ${all[0].base}`, last = byTime ? moment(to) : "the active segment";
      const unknown = byTime && !isBorn && from < start ? ` T${ends.slice(1)}.` : "";
      const why = ahead ? ` In order, because ${ahead} of them reach into the future.` : "";
      yield make("p", {}, `Left: ${first}; right: ${last}.${unknown}${why} High bars stay, low bars go.`);
      yield picture;
      yield make("ul", {class: "legend"}, ...sums.map(([action, of]) =>
        make("li", {}, verdict(action), ` ${grouped(of.length)} segment${of.length === 1 ? "" : "s"}`)));
      yield make("p", {}, `Marked: ${told.join("; ")}.`);
    }

    table(all, name) {
      const heads = [["Segment", "number"], ["Size", "bytes"], ["Newest record", "moment"], ["Verdict", ""], ["Reason", ""], ["Until", "moment"]], body = make("tbody");
      const add = (from, to) => all.slice(from, to).forEach(segment => body.append(this.line(segment)));
      add(0, ROWS);
      if (all.length > ROWS) {
        const more = make("button", {type: "button"}, `Show ${grouped(all.length - ROWS)} more segments`);
        const last = make("tr", {}, make("td", {colspan: heads.length}, more));
        more.addEventListener("click", () => { last.remove(); add(ROWS); });
        body.append(last);
      }
      const head = make("thead", {}, make("tr", {}, ...heads.map(([word, kind]) => make("th", {scope: "col", class: kind}, word))));
      return make("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": `Segments of ${name}`}, make("table", {}, head, body));
    }

    line(segment) {
      const button = make("button", {type: "button", class: "opens code", "aria-expanded": false}, segment.code);
      const line = make("tr", {},
        filled(make("th", {scope: "row", class: "number"}), "number", segment.base),
        filled(make("td", {class: "bytes"}), "bytes", segment.bytes),
        filled(make("td", {class: "moment"}), "moment", segment.newest),
        make("td", {}, verdict(segment.action)),
        make("td", {}, button),
        filled(make("td", {class: "moment"}), "moment", segment.action === "delete" ? null : segment.until));
      button.addEventListener("click", () => {
        const isOpen = button.getAttribute("aria-expanded") === "true";
        if (isOpen) line.nextElementSibling.remove();
        else line.after(make("tr", {}, make("td", {colspan: 6, class: "inside"}, ...this.why(segment))));
        button.setAttribute("aria-expanded", !isOpen);
      });
      return line;
    }

    *why(segment) {
      yield make("p", {class: "sentence"}, bdi(segment.text));
      if (!segment.limit) return;
      const [key, value, layer, file, number] = segment.limit;
      const place = file === null ? "" : ` in ${file}${number === null ? "" : `, line ${number}`}`;
      yield make("p", {class: "origin"}, "Value: ", make("code", {}, bdi(`${key}=${value}`)), `, stated by ${layer}`, bdi(place));
    }
  }

  const unpacked = async () => {
    const letters = atob(document.getElementById("data").textContent), bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place++) bytes[place] = letters.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };

  unpacked().then(({now, tables, segments}) => {
    const packed = segments.starts ? new Segments(segments, now) : null;
    for (const data of tables) new Table(document.getElementById(data.key), data, packed);
    document.documentElement.dataset.ready = "true";
  }).catch(error => {
    said.className = "failure";
    said.textContent = `The tables cannot be unpacked by this browser: ${error}`;
  });
})();
