// The charts of the last hour. All show one moment, which a slider or the pointer
// chooses, and by default the newest.

const hour = 3600e3;
const gap = 12.5e3; // milliseconds between two points beyond which nothing connects them

// Over a minute: what is counted between two points is shown by the minute.
function perMinute(points, of) {
  const sums = [];
  let from = 0, sum = 0, seconds = 0;
  points.forEach((p, i) => {
    const n = of(p);
    if (!known(n) || !known(p.seconds)) {
      from = i + 1; sum = seconds = 0; sums.push(null);
      return;
    }
    sum += n; seconds += p.seconds;
    while (from < i && seconds - points[from].seconds >= 55) { sum -= of(points[from]); seconds -= points[from].seconds; from++; }
    sums.push(sum * 60 / seconds);
  });
  return sums;
}

const plain = key => points => points.map(p => p[key]);
const positive = key => points => points.map(p => p[key] > 0 ? p[key] : null);
const ended = why => points => perMinute(points, p => p.ended[why]);

// kinds are the charts: of each its curves, the limit that belongs to it, and how its
// numbers are written.
const kinds = [
  { title: "Waiting", curves: [["here", "s1", plain("waiting"), true], ["away, place kept", "s2", plain("away")]], write: count },
  { title: "Active", curves: [["active", "s1", plain("active"), true]], limit: positive("active_limit"), write: count },
  { title: "Let in and joined, a minute", curves: [["let in", "s1", points => perMinute(points, p => p.admitted), true], ["joined", "s2", points => perMinute(points, p => p.joined)]], limit: positive("rate_limit_per_minute"), write: count },
  { title: "Wait of those let in", curves: [["typical", "s1", plain("wait_typical_seconds"), true], ["worst 5 %", "s2", plain("wait_worst_seconds")]], write: wait },
  { title: "Passes not taken up, a minute", curves: [["no-shows", "s1", points => perMinute(points, p => p.no_shows), true]], write: n => known(n) ? fine.format(n) : "–" },
  { title: "Stays ended, a minute", curves: [["ordered", "s4", ended("consumed")], ["given back", "s1", ended("released")], ["left", "s3", ended("left")], ["timed out", "s2", ended("expired")]], write: n => known(n) ? fine.format(n) : "–" },
];

// nice is a round number not below n.
function nice(n) {
  if (n <= 4) return 4;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10].map(s => s * power).find(top => top >= n);
}

const svg = (name, attributes) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  return e;
};

// course is the path of a curve through the points where it is known.
function course(points, values, x, y) {
  let path = "", last = -Infinity;
  values.forEach((v, i) => {
    if (!known(v)) { last = -Infinity; return; }
    const at = Date.parse(points[i].at);
    path += (at - last > gap ? "M" : "L") + x(at).toFixed(1) + " " + y(v).toFixed(1);
    last = at;
  });
  return path;
}

// filled is a course closed along the ground.
function filled(path) {
  return path.split("M").filter(Boolean).map(part => {
    const steps = part.split("L");
    return "M" + steps[0].split(" ")[0] + " 100L" + steps.join("L") + "L" + steps.at(-1).split(" ")[0] + " 100Z";
  }).join("");
}

class Chart {
  constructor(kind, choose) {
    this.kind = kind;
    this.legend = make("ul", { className: "legend" });
    this.values = kind.curves.map(([name, style]) => this.key(name, "key " + style));
    if (kind.limit) this.values.push(this.key("limit", "key limit"));
    this.svg = svg("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img" });
    this.top = make("span", { className: "top" });
    this.mid = make("span", { className: "mid" });
    this.none = make("span", { className: "none", textContent: "No history yet" });
    this.axis = make("div", { className: "axis", "aria-hidden": "true" });
    const plot = make("div", { className: "plot" }, this.svg, this.top, this.mid, this.none);
    plot.addEventListener("pointermove", e => {
      const box = plot.getBoundingClientRect();
      choose((e.clientX - box.left) / box.width);
    });
    plot.addEventListener("pointerleave", () => choose(1));
    this.element = make("figure", { className: "chart" }, make("h3", { textContent: kind.title }), this.legend, plot, this.axis);
  }

  key(name, style) {
    const value = make("b", {});
    this.legend.append(make("li", {}, make("span", { className: style, "aria-hidden": "true" }), name + " ", value));
    return value;
  }

  // draw draws the points of the hour that ends now, and the moments at which
  // somebody changed something.
  draw(points, now, marks) {
    this.points = points;
    this.all = this.kind.curves.map(c => c[2](points));
    if (this.kind.limit) this.all.push(this.kind.limit(points));
    const high = Math.max(...this.all.flat().filter(known), 0);
    const top = nice(high * 1.05);
    const x = at => 1000 * (1 - (now - at) / hour), y = v => 100 - 100 * v / top;
    const parts = [svg("path", { class: "grid", d: "M0 0H1000M0 50H1000" })];
    points.forEach((p, i) => {
      const before = points[i - 1];
      if (!before || p.state === "open" && !p.healing) return;
      const from = x(Date.parse(before.at)), to = x(Date.parse(p.at));
      if (to - from < 1000 * gap / hour) parts.push(svg("rect", { class: "band", x: from, y: 0, width: to - from + .3, height: 100 }));
    });
    for (const at of marks) if (at > now - hour) parts.push(svg("path", { class: "mark", d: "M" + x(at) + " 0V100" }));
    this.kind.curves.forEach(([, style, , area], i) => {
      const path = course(points, this.all[i], x, y);
      if (!path) return;
      if (area) parts.push(svg("path", { class: "area", d: filled(path) }));
      parts.push(svg("path", { class: "curve " + style, d: path }));
    });
    if (this.kind.limit) {
      const path = course(points, this.all.at(-1), x, y);
      if (path) parts.push(svg("path", { class: "limit-line", d: path }));
    }
    this.cursor = svg("path", { class: "cursor" });
    this.svg.replaceChildren(...parts, this.cursor);
    this.x = x;
    this.none.hidden = points.length > 0;
    text(this.top, this.kind.write(top));
    text(this.mid, this.kind.write(top / 2));
    const ticks = [60, 45, 30, 15, 0].map(m => make("span", { textContent: minute.format(new Date(now - m * 60e3)) }));
    this.axis.replaceChildren(...ticks);
    this.svg.setAttribute("aria-label", this.summary());
  }

  // summary says in words what the curves show.
  summary() {
    const of = this.kind.curves.map(([name], i) => {
      const values = this.all[i].filter(known);
      if (!values.length) return name + ": nothing known";
      return name + ": now " + this.kind.write(this.all[i].at(-1)) + ", between " + this.kind.write(Math.min(...values)) + " and " + this.kind.write(Math.max(...values));
    });
    return this.kind.title + " in the last hour. " + of.join("; ");
  }

  // show tells the values of one point, or of the newest when there is none.
  show(i) {
    const at = i < 0 ? this.points.length - 1 : i;
    this.values.forEach((e, k) => text(e, this.points.length ? this.kind.write(this.all[k][at]) : "–"));
    this.cursor.setAttribute("d", i < 0 ? "" : "M" + this.x(Date.parse(this.points[i].at)) + " 0V100");
  }
}

// Charts are all of them under one slider.
class Charts {
  constructor() {
    this.at = 1; // the share of the hour that is looked at; 1 is now
    this.list = kinds.map(kind => new Chart(kind, share => this.choose(share)));
    $("chart-grid").append(...this.list.map(c => c.element));
    $("moment").addEventListener("input", () => this.choose($("moment").value / 720));
  }

  draw(points, now, marks) {
    this.points = points.filter(p => Date.parse(p.at) > now - hour);
    this.now = now;
    for (const c of this.list) c.draw(this.points, now, marks);
    this.choose(this.at);
  }

  choose(share) {
    this.at = Math.min(1, Math.max(0, share));
    if (!this.points) return;
    const wanted = this.now - (1 - this.at) * hour;
    let i = -1;
    if (this.at < .999) {
      i = this.points.findIndex(p => Date.parse(p.at) >= wanted);
      if (i < 0) i = this.points.length - 1;
    }
    for (const c of this.list) c.show(i);
    $("moment").value = Math.round(this.at * 720);
    const words = i < 0 ? "now" : clock.format(new Date(this.points[i].at)) + (this.points[i].state === "open" ? "" : ", " + states[this.points[i].state]);
    text($("moment-text"), words);
    $("moment").setAttribute("aria-valuetext", words);
  }
}
