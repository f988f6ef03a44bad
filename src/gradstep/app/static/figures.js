// The figures: theory as lines, the real network as points with error bars, labels at the lines.

/* global Plotly */
import { written } from "./controls.js";

export const REGIMES = ["initial", "small", "between", "few", "large", "infinite"];
/** Least contrast of a line with what it lies on (WCAG 2.2, 1.4.11). */
const CONTRAST = 3;
const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };

/** A colour of the style sheet as plotly understands it. */
function ink(name, root = document.documentElement) {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  root.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

export function palette(root) {
  const names = ["ink", "soft", "rule", "card", ...REGIMES];
  return Object.fromEntries(names.map((name) => [name, ink(name, root)]));
}

/** Mixed with white (place < 0) or black. */
function shade(colour, place) {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number);
  const mix = (v) => Math.round(v + ((place < 0 ? 255 : 0) - v) * Math.abs(place));
  return `rgb(${mix(r)}, ${mix(g)}, ${mix(b)})`;
}

/** Luminance as the guidelines for contrast define it. */
function luminance(colour) {
  const [r, g, b] = colour.match(/[\d.]+/g).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

/** One hue a regime; settings of one regime differ in lightness, and all stand out from the card. */
export function coloursOf(regimes, colours) {
  const towards = luminance(colours.card) > 0.5 ? -1 : 1;
  return regimes.map((regime, k) => {
    const hue = colours[regime] ?? colours.ink;
    const same = regimes.map((r, j) => (r === regime ? j : -1)).filter((j) => j >= 0);
    let palest = same.length === 1 ? 0 : 0.4;
    while (contrast(shade(hue, towards * palest), colours.card) < CONTRAST) palest -= 0.02;
    const share = same.length === 1 ? 0 : same.indexOf(k) / (same.length - 1);
    return shade(hue, towards * (palest - share * (palest + 0.5)));
  });
}

export function fade(colour, alpha) {
  const [r, g, b, own = 1] = colour.match(/[\d.]+/g).map(Number);
  return `rgba(${r}, ${g}, ${b}, ${own * alpha})`;
}

function axisLook(colours, extra) {
  return {
    color: colours.ink, gridcolor: colours.rule, linecolor: colours.rule, zeroline: false, fixedrange: true,
    ticks: "outside", tickcolor: colours.rule, ticklen: 4, automargin: true, exponentformat: "power", ...extra,
  };
}

function look(colours, extra) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, dragmode: false,
    hovermode: "closest", hoverlabel: { bgcolor: colours.card, bordercolor: colours.rule, font: { color: colours.ink } },
    font: { family: "system-ui, sans-serif", size: 13, color: colours.ink },
    margin: { l: 52, r: 18, t: 10, b: 46 }, ...extra,
  };
}

/** Places of labels at the right end of lines, in shares of the height, pushed apart where ends are close. */
function spread(ends, gap) {
  const order = ends.map((y, k) => [y, k]).sort((a, b) => a[0] - b[0]);
  const places = [];
  let last = -Infinity;
  for (const [y, k] of order) {
    last = Math.max(y, last + gap);
    places[k] = last;
  }
  return places;
}

/** The part of the axis over which a label at one end or in the middle stretches. */
function reach(end, width) {
  return { left: [0, width], center: [0.5 - width / 2, 0.5 + width / 2], right: [1 - width, 1] }[end];
}

/** Where a label at a line is farthest from all others: which part of the line, over or under it, and how high. */
function calmest([u, v], width, lines) {
  const spots = ["right", "left", "center"].flatMap((end) => [1, -1].map((side) => {
    const [from, to] = reach(end, width);
    const within = ([across, up]) => up.filter((w, k) => across[k] >= from && across[k] <= to && Number.isFinite(w));
    const height = (side > 0 ? Math.max : Math.min)(...within([u, v])) + 0.035 * side;
    const distances = lines.flatMap((line) => within(line).map((w) => Math.abs(w - height)));
    // Beyond a tenth of the height nothing is gained.
    return { end, side, height, room: !(height > 0.03 && height < 0.97) ? -1 : Math.min(0.1, ...distances) };
  }));
  return spots.reduce((best, spot) => (spot.room > best.room ? spot : best));
}

/** Multiples of a round number between two others. */
function roundBetween(low, high) {
  const most = (high - low) / 3;
  const decade = 10 ** Math.floor(Math.log10(most));
  const step = [5, 2, 1].find((part) => part * decade <= most) * decade;
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

/** Ticks of a logarithmic axis as plain numbers: decades, with 2 and 5 between where the range is short; where it is shorter still, round numbers. */
function logAxis(low, high) {
  const decades = Math.log10(high / low);
  const steps = decades < 0.8 ? [1, 1.5, 2, 3, 4, 5, 7] : decades < 2.6 ? [1, 2, 5] : [1];
  const every = Math.ceil(decades / 8);
  const tickvals = [];
  for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k += 1) {
    if (k % every === 0) for (const step of steps) tickvals.push(Number(`${step}e${k}`));
  }
  const shown = tickvals.filter((v) => v >= low && v <= high).length < 3 ? roundBetween(low, high) : tickvals;
  return { type: "log", tickvals: shown, ticktext: shown.map((v) => written(v, 6)) };
}

/** Whether a place is on the axis, or just beyond one of its ends. */
export const onAxis = (x, axis) => Number.isFinite(x) && x >= axis.from * 0.95 && x <= axis.to * 1.05;

/**
 * Traces and layout of the errors.
 *
 * @param curves one a setting: {letter, label, colour, curve, here, active, points}
 * @param width of the plot in pixels, for its labels
 * @param named whether guides and the line without a step have labels at their lines
 */
export function errors({ curves, axis, axisLabel, yLabel, guides, best, width, named: labelled }, colours) {
  const traces = [];
  const positive = (values) => values.map((v) => (v > 0 ? v : null));
  // A place between two without an answer is on no line: it has a marker.
  const drawn = (values, marker) => {
    const size = values.map((v, k) => (v > 0 && !(values[k - 1] > 0) && !(values[k + 1] > 0) ? 7 : 0));
    return size.some(Boolean) ? { mode: "lines+markers", marker: { size, opacity: 1, ...marker } } : { mode: "lines" };
  };
  const unstepped = curves.find((c) => c.active)?.curve.without_step;
  if (unstepped) {
    const { x } = curves.find((c) => c.active).curve;
    traces.push({
      x, y: positive(unstepped), name: "no step", ...drawn(unstepped, { color: colours.initial }),
      line: { color: colours.initial, width: 2 }, hovertemplate: "no step %{y:.4g}<extra></extra>",
    });
  }
  for (const { letter, colour: own, curve, active, beyond } of curves) {
    const name = curves.length > 1 ? `${letter} ` : "";
    const colour = beyond ? fade(own, 0.4) : own; // theory of one step, beside points of another training
    traces.push({
      x: curve.x, y: positive(curve.train_error), name: `${name}training`,
      ...drawn(curve.train_error, { symbol: "circle-open", color: colour }),
      line: { color: fade(colour, 0.75), width: 1.6, dash: "2px,3px" }, hovertemplate: `${name}training %{y:.4g}<extra></extra>`,
    });
    traces.push({
      x: curve.x, y: positive(curve.test_error), name: `${name}test`, ...drawn(curve.test_error, { color: colour }),
      line: { color: colour, width: active ? 3.2 : 2.2 }, hovertemplate: `${name}test %{y:.4g} at %{x:.4g}<extra></extra>`,
    });
  }
  for (const { letter, colour: own, points, beyond } of curves) {
    if (!points) continue;
    const colour = points.old ? fade(colours.soft, 0.55) : own;
    const rim = points.old ? colour : colours.ink;
    const inside = ({ x, test_error: test }) => test && onAxis(x, axis);
    const shown = points.places.map((place, k) => ({ ...place, x: points.x[k] })).filter(inside);
    for (const [quantity, symbol, size] of [["train_error", "circle-open", 6], ["test_error", "circle", 9]]) {
      traces.push({
        x: shown.map((p) => p.x), y: shown.map((p) => p[quantity].mean), mode: beyond ? "lines+markers" : "markers", name: `${letter} network${points.old ? ", before" : ""}`,
        error_y: { type: "data", array: shown.map((p) => p[quantity].standard_error ?? 0), color: colour, thickness: 1.6, width: 4 },
        line: { color: colour, width: 2, dash: quantity === "train_error" ? "2px,3px" : "solid" },
        marker: { color: colour, size, symbol, line: { color: symbol === "circle" ? rim : colour, width: symbol === "circle" ? 0.8 : 1.4 } },
        customdata: shown.map((p) => p.seeds),
        hovertemplate: `network %{y:.4g} at %{x:.4g}, %{customdata} drawn${points.old ? ", at the setting before" : ""}<extra></extra>`,
      });
    }
  }
  const mine = curves.find((c) => c.active);
  if (mine && !mine.beyond && onAxis(mine.here?.x, axis)) {
    traces.push({
      x: [mine.here.x], y: [mine.here.test_error], mode: "markers", name: "this setting", hoverinfo: "skip",
      marker: { size: 12, color: colours.card, line: { color: mine.colour, width: 3 } },
    });
  }
  if (best) {
    traces.push({
      x: [best.x], y: [best.y], mode: "markers", name: "best", marker: { symbol: "star", size: 17, color: mine.colour, line: { color: colours.ink, width: 1 } },
      hovertemplate: "best: %{x:.4g}, test error %{y:.4g}<extra></extra>",
    });
  }
  const shown = traces.flatMap((t) => t.y).filter((v) => v > 0);
  const tests = curves.flatMap((c) => c.curve.test_error).filter((v) => v > 0).concat(guides.map((g) => g.y).filter((v) => v > 0));
  // Training errors may vanish: they do not stretch the axis by more than a decade and a half below the test errors.
  const low = Math.max(Math.min(...shown), Math.min(...tests) / 40) / 1.25;
  const high = Math.max(...shown) * 1.25;
  const share = (y) => Math.log(y / low) / Math.log(high / low);
  const annotations = [];
  const shapes = guides.filter((g) => g.y > low).map((g) => ({
    type: "line", xref: "paper", x0: 0, x1: 1, y0: g.y, y1: g.y, line: { color: colours.soft, width: 1.4, dash: g.dash }, layer: "below",
  }));
  const across = axis.scale === "log" ? (x) => Math.log(x / axis.from) / Math.log(axis.to / axis.from) : (x) => (x - axis.from) / (axis.to - axis.from);
  const lines = curves.flatMap(({ curve }) => [curve.test_error, curve.train_error].map((values) => [curve.x.map(across), values.map(share)]));
  if (mine?.here && Number.isFinite(mine.here.x)) lines.push([[across(mine.here.x)], [share(mine.here.test_error)]]);
  for (const { points } of curves) {
    const seen = (points?.places ?? []).flatMap((place, k) => (place.test_error ? [[points.x[k], place]] : []));
    for (const name of ["test_error", "train_error"]) lines.push([seen.map(([x]) => across(x)), seen.map(([, place]) => share(place[name].mean))]);
  }
  // What has its name at its line: the guides, and the network without a step.
  const level = (y) => [[0, 0.25, 0.5, 0.75, 1], Array(5).fill(share(y))];
  const named = (labelled ? guides.filter((g) => g.y > low) : []).map((g) => ({ label: width < 420 ? g.short : g.label, line: level(g.y), colour: colours.soft }));
  if (unstepped && labelled) {
    named.push({ label: "no step", line: [mine.curve.x.map(across), unstepped.map((v) => (v > 0 ? share(v) : NaN))], colour: colours.soft });
  }
  lines.push(...named.map(({ line }) => line));
  for (const { label, line, colour } of named) {
    const size = width < 420 ? 11 : 12;
    const room = (0.56 * size * label.length) / width;
    const { end, side, height } = calmest(line, room, lines.filter((other) => other !== line));
    lines.push([[reach(end, room)[0], ...[0.25, 0.5, 0.75].map((t) => reach(end, room)[0] + t * room), reach(end, room)[1]], Array(5).fill(height)]);
    annotations.push({
      xref: "paper", x: { left: 0.01, center: 0.5, right: 0.99 }[end], text: label, showarrow: false, xanchor: end, yanchor: "middle",
      y: Math.log10(low) + height * Math.log10(high / low), font: { color: colour, size }, bgcolor: fade(colours.card, 0.75), borderpad: 1,
    });
  }
  if (mine?.here && Number.isFinite(mine.here.x)) {
    shapes.push({
      type: "line", yref: "paper", y0: 0, y1: 1, x0: mine.here.x, x1: mine.here.x, line: { color: mine.colour, width: 1, dash: "dot" }, layer: "below",
    });
  }
  if (curves.length > 1) {
    const drawnLast = ({ beyond, points }) => (beyond && points && !points.old ? points.places.at(-1)?.test_error?.mean : null);
    const ends = curves.map((c) => drawnLast(c) ?? c.curve.test_error.findLast((v) => v > 0) ?? low);
    spread(ends.map(share), 0.06).forEach((place, k) =>
      annotations.push({
        xref: "paper", yref: "paper", x: 1.008, y: place, text: `<b>${curves[k].letter}</b>`, showarrow: false,
        xanchor: "left", yanchor: "middle", font: { color: curves[k].colour, size: 14 },
      }));
  }
  const [from, to] = [axis.from, axis.to];
  // Markers at the ends are seen whole.
  const wide = (low, high) => [low - 0.012 * (high - low), high + 0.012 * (high - low)];
  const x = axis.scale === "log"
    ? { ...logAxis(from, to), range: wide(Math.log10(from), Math.log10(to)) }
    : { type: "linear", range: wide(from, to) };
  const layout = look(colours, {
    margin: { l: 58, r: curves.length > 1 ? 30 : 18, t: 12, b: 48 },
    xaxis: axisLook(colours, { ...x, title: { text: axisLabel, standoff: 8 } }),
    yaxis: axisLook(colours, { ...logAxis(low, high), range: [Math.log10(low), Math.log10(high)], title: { text: yLabel, standoff: 6 } }),
    shapes, annotations,
  });
  return { traces, layout };
}

/** Learned functions over the teacher's mean. */
export function learned(curves, colours) {
  const reach = 3.5;
  const inside = (f, values) => f.kappa.flatMap((k, i) => (Math.abs(k) <= reach ? [[k, values[i]]] : []));
  const mine = curves.find((c) => c.active) ?? curves[0];
  const line = (pairs, more) => ({ x: pairs.map((p) => p[0]), y: pairs.map((p) => p[1]), mode: "lines", ...more });
  // The teacher lies on top, as what is learned may be all of it.
  const traces = [
    ...curves.map(({ letter, colour, learned: f, active }) =>
      line(inside(f, f.learned), {
        name: `${letter} learned`, line: { color: colour, width: active ? 3.2 : 2.2, shape: "spline" },
        hovertemplate: `${curves.length > 1 ? `${letter} ` : ""}learned %{y:.3f} at κ = %{x:.2f}<extra></extra>`,
      })),
    line(inside(mine.learned, mine.learned.teacher), {
      name: "teacher", line: { color: colours.ink, width: 2, dash: "6px,4px", shape: "spline" }, hovertemplate: "teacher %{y:.3f}<extra></extra>",
    }),
  ];
  const ys = traces.flatMap((t) => t.y);
  // What is zero up to rounding is drawn as zero.
  const [low, high] = ys.every((y) => Math.abs(y) < 1e-6) ? [-1, 1] : [Math.min(...ys), Math.max(...ys)];
  const room = 0.08 * (high - low || 1);
  const layout = look(colours, {
    xaxis: axisLook(colours, { range: [-reach, reach], title: { text: "projection κ on the spike", standoff: 6 }, dtick: 1 }),
    yaxis: axisLook(colours, { range: [low - room, high + room], title: { text: "mean output given κ", standoff: 4 } }),
  });
  return { traces, layout };
}

/** Height of a row of labels in shares of the spectrum's height, and how many rows there are room for. */
const ROW = 0.085, MOST_ROWS = 6;

/** Places of labels at lines: each in the lowest row where it covers no other, and none for what no row has room for. */
function labelRows(outliers, share, width) {
  const rows = [];
  return outliers.map(({ label, singular_value: value }) => {
    const text = label.replace("a direction of the inputs", "inputs");
    const place = share(value);
    const length = (7 * text.length + 8) / width;
    // What would leave the picture stands to one side of its line.
    const left = Math.min(Math.max(0, place - length / 2), 1 - length);
    const fits = (taken) => taken.every(([from, to]) => left + length <= from || left >= to);
    const row = [...Array(MOST_ROWS).keys()].find((k) => fits((rows[k] ??= [])));
    rows[row]?.push([left, left + length]);
    return { text, row, middle: left + length / 2 };
  });
}

/** Density of the singular values, and outliers; the one before the step is dashed. */
export function spectrum({ found, matrix, colour, width }, colours) {
  const before = found.before ?? [];
  const edge = Math.max(...[...found.bands, ...before].flatMap((band) => band.singular_value));
  const start = Math.min(...found.bands.flatMap((band) => band.singular_value));
  const far = Math.max(edge, ...found.outliers.map((o) => o.singular_value));
  const wide = far > 3 * edge;
  const traces = found.bands.map((band) => ({
    x: band.singular_value, y: band.density, mode: "lines", fill: "tozeroy", name: "bulk",
    line: { color: colour, width: 2 }, fillcolor: fade(colour, 0.22), hovertemplate: "%{x:.3f}: density %{y:.3f}<extra></extra>",
  }));
  traces.push(...before.map((band) => ({
    x: band.singular_value, y: band.density, mode: "lines", name: "before", line: { color: colours.ink, width: 1.5, dash: "dash" },
    hovertemplate: "before the step, %{x:.3f}: density %{y:.3f}<extra></extra>",
  })));
  const heights = [...found.bands, ...before].flatMap((band) => band.density.filter((_, k) => band.singular_value[k] > 0.02 * edge));
  const top = 1.12 * Math.max(...heights);
  traces.push({
    x: found.outliers.map((o) => o.singular_value), y: found.outliers.map(() => 0.02 * top), mode: "markers", name: "outliers",
    marker: { symbol: "triangle-up", size: 11, color: colour, line: { color: colours.ink, width: 0.8 } },
    text: found.outliers.map((o) => o.label), hovertemplate: "outlier %{x:.3f}: %{text}<extra></extra>",
  });
  const left = Math.max(start, 0.02 * edge);
  const x = wide
    ? { ...logAxis(left, far), range: [Math.log10(left / 1.15), Math.log10(far * 1.5)] }
    : { type: "linear", range: [0, 1.12 * far] };
  const inner = wide ? Math.log10 : (value) => value;
  const labels = labelRows(found.outliers, (value) => (inner(value) - x.range[0]) / (x.range[1] - x.range[0]), width);
  const lowest = 1 - ROW * Math.max(3, ...labels.map(({ row }) => (row ?? 0) + 1));
  const annotations = labels.filter(({ row }) => row !== undefined).map(({ text, row, middle }) => ({
    xref: "paper", x: middle, yref: "paper", y: lowest + ROW * row, text, showarrow: false, font: { color: colours.ink, size: 12 },
    xanchor: "center", yanchor: "bottom",
  }));
  const shapes = found.outliers.map((o) => ({
    type: "line", x0: o.singular_value, x1: o.singular_value, yref: "paper", y0: 0, y1: lowest - 0.02, line: { color: colour, width: 2.5 },
  }));
  const layout = look(colours, {
    xaxis: axisLook(colours, { ...x, title: { text: `singular value${matrix === "features" ? " / √n" : ""}`, standoff: 6 } }),
    yaxis: axisLook(colours, { range: [0, top], title: { text: "density", standoff: 4 } }),
    shapes, annotations,
  });
  return { traces, layout };
}

export function draw(id, { traces, layout }) {
  const place = document.getElementById(id);
  // Its size is the style sheet's: asking for it here saves plotly a layout.
  return Plotly.react(place, traces, layout, CONFIG);
}

/** A table of numbers: the figure for those who cannot see it, or want its values. */
export function table(header, rows) {
  const cells = (tag, row) => row.map((cell) => `<${tag}${tag === "th" ? ' scope="col"' : ""}>${cell}</${tag}>`).join("");
  return `<table><thead><tr>${cells("th", header)}</tr></thead><tbody>${rows
    .map((row) => `<tr>${cells("td", row.map((v) => (typeof v === "number" || v === null ? written(v, 5) : v)))}</tr>`)
    .join("")}</tbody></table>`;
}

