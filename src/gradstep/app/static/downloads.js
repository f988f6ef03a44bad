// What can be taken home: data, figures, code.

/* global Plotly */

export function save(name, content, type) {
  const link = document.createElement("a");
  link.href = content instanceof Blob ? URL.createObjectURL(content) : URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Points of another setting than the curve's are not to be taken for its own. */
export const pointKind = (points) => (points.old ? "network of the setting before" : "network");

/** One row a place and setting; networks have standard errors. */
export function csv(curves, { axis, label_noise: noise }) {
  const header = ["setting", "label", "kind", axis.symbol, "label_noise_in", "test_error", "test_standard_error", "train_error", "train_standard_error", "networks"];
  const rows = curves.flatMap(({ letter, label, curve, points }) => [
    ...curve.x.map((x, k) => [letter, label, "theory", x, noise, curve.test_error[k], "", curve.train_error[k], "", ""]),
    ...(points?.places ?? []).flatMap((place, k) =>
      place.test_error
        ? [[letter, label, pointKind(points), points.x[k], noise, place.test_error.mean, place.test_error.standard_error,
            place.train_error.mean, place.train_error.standard_error, place.seeds]]
        : []),
  ]);
  return [header, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

/** @param shown {axis, label_noise}, the axis with a symbol for what is on it */
export function json(curves, shown, facts) {
  const settings = curves.map(({ letter, label, problem, curve, here, points }) => ({
    setting: letter, label, problem, resolved: here.problem, here, curve, simulation: points ?? null,
  }));
  return JSON.stringify(
    { gradstep: facts.version, convention: facts.convention, address: location.href, ...shown, settings },
    null, 1,
  );
}

/** Lines of at most so many characters. */
function wrapped(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length > width) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines;
}

const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");

/**
 * The figure on paper: light colours, a title that says what it shows, and all its parameters below it.
 *
 * @param notes {key, parameters}: what the marks are, and lines of parameters
 */
export async function figure(format, { traces, layout }, title, notes, colours) {
  const key = wrapped(notes.key, 125).map(safe);
  const lines = notes.parameters.flatMap((line) => wrapped(line, 148)).map(safe);
  const below = 62 + 15 * lines.length;
  const size = { width: 900, height: 440 + below + 16 * key.length };
  const paper = {
    ...layout, ...size, paper_bgcolor: "#fff", plot_bgcolor: "#fff",
    title: {
      text: safe(title), x: 0.02, xanchor: "left", y: 1, yref: "container", yanchor: "top", pad: { t: 14 }, font: { size: 16, color: colours.ink },
      subtitle: { text: key.join("<br>"), font: { size: 12, color: colours.soft } },
    },
    annotations: [...layout.annotations, {
      xref: "paper", yref: "paper", x: 0, y: 0, yshift: -54, xshift: -56, xanchor: "left", yanchor: "top", align: "left", showarrow: false,
      text: lines.join("<br>"), font: { size: 11, color: colours.soft },
    }],
    margin: { ...layout.margin, l: 70, t: 58 + 16 * key.length, b: below },
  };
  const address = await Plotly.toImage({ data: traces, layout: paper }, { format, ...size, scale: format === "png" ? 2 : 1 });
  return (await fetchless(address));
}

/** A data address as a blob, without a request. */
function fetchless(address) {
  const [head, body] = [address.slice(5, address.indexOf(",")), address.slice(address.indexOf(",") + 1)];
  const type = head.split(";")[0];
  if (!head.includes("base64")) return new Blob([decodeURIComponent(body)], { type });
  return new Blob([Uint8Array.from(atob(body), (c) => c.charCodeAt(0))], { type });
}
