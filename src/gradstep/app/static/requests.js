// Requests to the server: at most one of a kind at work, and only the newest one waiting.

/** What the server says is wrong with a value. */
export class Refused extends Error {
  constructor({ message, field = null, allowed = "", reason = "", guess = "" }) {
    super(message);
    this.field = field;
    this.allowed = allowed;
    this.reason = reason;
    this.guess = guess;
  }
}

/** What may be answered a little later. */
export class Passing extends Refused {}

/** What takes longer than the server allows. */
export class Slow extends Refused {}

/** The server has ended, or is being started again. */
class Unreachable extends Passing {
  constructor() {
    super({ message: "The server does not answer. Does gradstep app still run in its terminal?" });
  }
}

/** Milliseconds until a server that did not answer is asked again: at first, and at most. */
const AGAIN = 2000, SELDOM = 30000;

function lost(error) {
  // What fetch and its bodies raise when the line is cut; an answer that is no JSON is another matter.
  throw error instanceof TypeError ? new Unreachable() : error;
}

async function send(name, options = {}) {
  const response = await fetch(`/api/${name}`, options).catch(lost);
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    if (answer?.error?.ended) throw new Unreachable();
    const kind = response.status === 429 ? Passing : answer?.error?.slow ? Slow : Refused;
    throw new kind(answer?.error ?? { message: `The server answered ${response.status}.` });
  }
  return response;
}

function posted(body, signal) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function get(name) {
  return (await send(name)).json().catch(lost);
}

export async function post(name, body, signal) {
  return (await send(name, posted(body, signal))).json().catch(lost);
}

/** Yield the lines of an answer as they arrive. */
export async function* follow(name, body, signal) {
  const reader = (await send(name, posted(body, signal))).body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(lost);
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Runs work for the newest call only: one at a time, and a newer call takes the place of the one that waits.
 *
 * While a slider is dragged every finished curve is drawn; work that has taken longer than the patience is aborted when
 * something newer is wanted. A server that does not answer, or has too much to do, is asked again until it does.
 */
export class Latest {
  constructor(work, { patience = 400, failed = () => {}, idle = () => {} } = {}) {
    this.work = work;
    this.patience = patience;
    this.failed = failed;
    this.idle = idle;
    this.wanted = null;
    this.controller = null;
  }

  ask(...values) {
    clearTimeout(this.again);
    this.pause = AGAIN;
    this.#want(values);
  }

  #want(values) {
    this.wanted = values;
    if (!this.controller) this.#run();
    else if (performance.now() - this.began > this.patience) this.controller.abort();
    else this.timer ??= setTimeout(() => this.#lose(), this.patience);
  }

  drop() {
    clearTimeout(this.again);
    this.wanted = null;
    this.controller?.abort();
  }

  #lose() {
    this.timer = null;
    if (this.wanted) this.controller?.abort();
  }

  async #run() {
    while (this.wanted) {
      const values = this.wanted;
      this.wanted = null;
      this.controller = new AbortController();
      this.began = performance.now();
      try {
        await this.work(this.controller.signal, ...values);
      } catch (error) {
        if (error.name !== "AbortError" && !this.wanted) {
          this.failed(error);
          if (error instanceof Passing) this.again = setTimeout(() => this.#want(values), this.pause);
          this.pause = Math.min(1.5 * this.pause, SELDOM);
        }
      }
      clearTimeout(this.timer);
      this.timer = null;
    }
    this.controller = null;
    this.idle();
  }
}
