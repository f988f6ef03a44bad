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

/** One row a place and setting; networks have standard errors. */
export function csv(curves, axisName) {
  const header = ["setting", "label", "kind", axisName, "test_error", "test_standard_error", "train_error", "train_standard_error", "networks"];
  const rows = curves.flatMap(({ letter, label, curve, points }) => [
    ...curve.x.map((x, k) => [letter, label, "theory", x, curve.test_error[k], "", curve.train_error[k], "", ""]),
    ...(points?.places ?? []).flatMap((place, k) =>
      place.test_error
        ? [[letter, label, "network", points.x[k], place.test_error.mean, place.test_error.standard_error,
            place.train_error.mean, place.train_error.standard_error, place.seeds]]
        : []),
  ]);
  return [header, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

export function json(curves, state, facts) {
  const settings = curves.map(({ letter, label, problem, curve, here, points }) => ({
    setting: letter, label, problem, resolved: here.problem, here, curve, simulation: points ?? null,
  }));
  return JSON.stringify(
    { gradstep: facts.version, convention: facts.convention, address: location.href, axis: state.axis, settings },
    null, 1,
  );
}

const KEY = "Test error (solid), training error (dotted); mean ± standard error of real networks (points), where simulated.";

/** The figure on paper: light colours, with a title that says what it shows. */
export async function figure(format, { traces, layout }, title, colours) {
  const paper = {
    ...layout, paper_bgcolor: "#fff", plot_bgcolor: "#fff", width: 900, height: 560,
    title: {
      text: title, x: 0.02, xanchor: "left", font: { size: 16, color: colours.ink },
      subtitle: { text: KEY, font: { size: 12, color: colours.soft } },
    },
    margin: { ...layout.margin, l: 70, t: 76, b: 60 },
  };
  const address = await Plotly.toImage({ data: traces, layout: paper }, { format, width: 900, height: 560, scale: format === "png" ? 2 : 1 });
  return (await fetchless(address));
}

/** A data address as a blob, without a request. */
function fetchless(address) {
  const [head, body] = [address.slice(5, address.indexOf(",")), address.slice(address.indexOf(",") + 1)];
  const type = head.split(";")[0];
  if (!head.includes("base64")) return new Blob([decodeURIComponent(body)], { type });
  return new Blob([Uint8Array.from(atob(body), (c) => c.charCodeAt(0))], { type });
}
