// The types of otelllm-facts.mjs, otelllm-judge.mjs and otelllm-retry.mjs, which say more of each. `make packages-check` compares the
// names with their exports.

/** Where a stop comes from. A watchdog is a timer of your own. */
export type AbortSource = 'user' | 'application' | 'shutdown' | 'deadline' | 'watchdog';

/** What a tool may do to the world if it is executed again. */
export type Effect = 'read_only' | 'idempotent' | 'non_idempotent' | 'unknown';

/** A reason for AbortController.abort that names its source. For 'watchdog', reason is 'connect', 'first_progress', 'idle' or 'total', and limit its seconds. */
export declare class Abort extends Error {
  constructor(source: AbortSource, reason?: string, limit?: number);
  source: AbortSource;
  reason?: string;
  limit?: number;
}

/** Runs fn with the signal that stops its requests, as a watchdog for one attempt does. */
export declare function withSignal<T>(signal: AbortSignal, fn: () => T): T;

export interface RunOptions {
  /** The signal that stops the run: clients wrap signals and lose their reasons. */
  signal?: AbortSignal;
  /** The id of the conversation that the run is part of. */
  conversation?: string;
  /** Declares that every tool runs in withTool, so that none ran if none was recorded. */
  toolsRecorded?: boolean;
  /** For verdict(): by default that of the run around it, or the program that OTELLLM_JUDGE names. */
  judge?: Judge;
}

/** Runs fn as one run of an agent. */
export declare function withRun<T>(agent: string, options: RunOptions | undefined, fn: () => T | Promise<T>): Promise<T>;

export interface ToolOptions {
  /** The id of the model's call. */
  id?: string;
  name: string;
  effect?: Effect;
}

/** Runs fn as the execution of one tool call. */
export declare function withTool<T>(tool: ToolOptions, fn: () => T | Promise<T>): Promise<T>;

/** Records that the output of a call has reached the model by other means than the next request. */
export declare const outputSent: (id: string) => void;

/** Records that sending it failed. outputSent may follow. */
export declare const outputFailed: (id: string, error?: unknown) => void;

/** Records that the application keeps it, to send it later. */
export declare const outputCached: (id: string) => void;

/** The effect that the annotations of an MCP tool declare. */
export declare function effectOf(annotations?: {
  readOnlyHint?: boolean;
  idempotentHint?: boolean;
  destructiveHint?: boolean;
  openWorldHint?: boolean;
} | null): Effect;

/** Returns a fetch that records model requests and passes on all others. */
export declare function factsFetch(fetch?: typeof globalThis.fetch): typeof globalThis.fetch;

/** An answer of `otelllm judge`: attributes of the vocabulary on the run, and on the request or tool that ended last, if it failed. */
export interface Verdict {
  verdict?: Record<string, unknown>;
  part?: Record<string, unknown>;
  [key: string]: unknown;
}

/** The verdict on the current run as of now; undefined without a judge, or if there is no answer in time: then ask a person. */
export declare function verdict(ms?: number): Promise<Verdict | undefined>;

/** `otelllm judge` as a child process, for RunOptions.judge. */
export declare class Judge {
  constructor(command?: string[]);
  close(): void;
}

/** A line of facts, see https://github.com/otelllm/otelllm-go/blob/main/docs/judge.md. Its other members are facts of the vocabulary. */
export interface Facts {
  run: string;
  /** Missing for a question about the run. */
  kind?: 'run' | 'request' | 'tool';
  /** Of a request or a tool. */
  id?: string;
  state?: 'begun' | 'ended';
  parent_run?: string;
  /** Seconds since 1970, or RFC 3339. */
  start?: number | string;
  end?: number | string;
  status?: 'error' | 'ok' | 'unset';
  /** A question about these requests, the attempts of one model call. */
  call?: string[];
  /** A question the plan of which is on what began then or later. */
  since?: number | string;
  [fact: string]: unknown;
}

export interface PlannedCall {
  id?: string;
  name?: string;
  effect: Effect;
  output?: 'delivered' | 'kept' | 'lost';
}

/** How to go on: which tool calls ran, and what to send. */
export interface Plan {
  ran: PlannedCall[];
  may_have_run: PlannedCall[];
  never_ran: PlannedCall[];
  /** Calls may have run that are not listed. */
  more?: boolean;
  send?: 'again' | 'rest' | 'repaired_history' | 'nothing';
  /** Seconds that the provider asked for. */
  wait?: number;
  /** Why a person decides first. */
  ask?: string;
  /** The plan in sentences. */
  words?: string;
}

/** The answer to the last of the facts. */
export interface Judgement {
  run: string;
  /** On the run; null if nothing is said of one. */
  verdict: Record<string, unknown> | null;
  /** On the request or tool, or on the call of a question, if it failed. */
  part?: Record<string, unknown>;
  plan?: Plan;
  /** Facts with a value that the vocabulary does not have. */
  invalid?: string[];
  ignored?: number;
  incomplete?: boolean;
  id?: string;
  ref?: number | string;
}

/** Judges facts in this process, by the rules of `otelllm judge`, and keeps nothing. Throws a JudgeError for facts that are not valid. */
export declare function judge(facts: Facts | readonly Facts[]): Judgement;

/** What is wrong with facts, and with which of them: line counts from 1. */
export declare class JudgeError extends Error {
  constructor(message: string, line?: number);
  line?: number;
}

/** What a person decides on. */
export interface RetryQuestion {
  /** Fit to be shown to a person. */
  summary: string;
  verdict: Record<string, unknown>;
  plan: Plan;
  /** How many there were. */
  attempts: number;
  /** Text was shown, which the next attempt shows again. It is not known for a turn. */
  textShown: boolean;
  /** How long the next attempt will wait, in milliseconds. */
  wait: number;
  /** What the function threw; undefined if the SDK reported nothing. */
  error: unknown;
}

export interface RetryPolicy {
  /** At most, the first one and those of the SDK included; of retryTurn the calls of the turn. 4 by default. */
  attempts?: number;
  /** Milliseconds after the beginning in which the last attempt may begin; 2 minutes by default. */
  elapsed?: number;
  /** Milliseconds: the most to wait before the first retry, twice that before the next, and the most of all; 500 and 30,000 by default. */
  backoff?: number;
  backoffMost?: number;
  /** Of all callers of a host; by default that of the process. */
  budget?: RetryBudget;
  /** Whether to go on although something might happen twice. Without it such an attempt is not made. */
  ask?: (question: RetryQuestion) => boolean | Promise<boolean>;
  /** Ends the loop. */
  signal?: AbortSignal;
  /** For tests. */
  now?: () => number;
  random?: () => number;
  sleep?: (ms: number, signal?: AbortSignal) => Promise<void>;
}

/** Calls fn, which makes one model call with a client over factsFetch, until it succeeds or no further attempt is safe or within the budgets. */
export declare function retry<T>(fn: () => T | Promise<T>, policy?: RetryPolicy): Promise<T>;

/**
 * Calls turn, which makes the model calls of one turn of an agent and executes its tools, until it succeeds or no further attempt is safe or
 * within the budgets. The turn goes on from a history that it keeps outside of itself: a further attempt whose first model call lacks the
 * output of a tool call that ran is not sent ('output_left_out').
 */
export declare function retryTurn<T>(turn: () => T | Promise<T>, policy?: RetryPolicy): Promise<T>;

export type RetryDecision = 'output_left_out' | 'declined' | 'no_hook' | 'no_retry' | 'cancelled' | 'attempts_spent' | 'time_spent' | 'host_spent';

/** retry or retryTurn gave up. Its cause is the SDK's own error. */
export declare class RetryError extends Error {
  private constructor();
  decision: RetryDecision;
  attempts: number;
  verdict: Record<string, unknown>;
  plan: Plan;
}

/** Bounds the retries of all callers of a host together. */
export declare class RetryBudget {
  constructor();
}
