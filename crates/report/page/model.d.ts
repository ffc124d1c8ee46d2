/**
 * What the page is given: the report of `crates/analysis` (its types say what each field means) and the timeline that
 * `nccl-otf2 report` made. Times are ns after the beginning of the trace; bandwidths are bytes per second.
 */
export interface Model {
  report: Report;
  timeline: Timeline;
  /** The time and the ranks that the page is about, as they were asked for; no ranks: all. */
  part: { from_ns: number | null; to_ns: number | null; ranks: number[] };
  /** How many rows of which tables of the report did not fit into the page. */
  left_out: Record<string, number>;
  /** Of the page. */
  title: string;
  tool: string;
}

/** The page of two runs. */
export interface DiffModel {
  comparison: Comparison;
  title: string;
  tool: string;
}

export type CauseKind =
  'unfinished' | 'late-rank' | 'late-sender' | 'late-receiver' | 'slow-nic' | 'slow-pair' | 'slow-channel' |
  'slow-connection' | 'waited-for-gpu' | 'waited-for-peer' | 'unknown';

export interface Report {
  format: number;
  run: Run;
  verdict: Verdict;
  budget: Budget;
  causes: Cause[];
  anomalies: Anomaly[];
  communicators: { name: string; ranks: number; recorded: number; members: (number | null)[] }[];
  operations: OperationClass[];
  ranks: Rank[];
  lateness: { from_ns: number; bin_ns: number; ranks: (number | null)[][] };
  topology: Topology | null;
  nics: Nic[];
  pairs: Link[];
  channels: Link[];
  messages: Messages[];
  phases: Phase[];
  steps: Steps | null;
  communicator_calls: CommunicatorCall[];
  overlap: Overlap[] | null;
  critical_path: CriticalPath | null;
  clocks: { uncertainty_ns: number | null; unknown: number[]; sentence: string };
  completeness: Completeness;
  blind_spots: string[];
}

/** As NCCL dumped it: what is there, and the ways that it chose. */
export interface Topology {
  hosts: { name: string; gpus: TopologyGpu[] }[];
  graphs: Graph[];
  communicators: number;
  bytes_elsewhere: number;
  unused: string[];
}

export interface TopologyGpu {
  pci: string;
  path: string;
  capability: number;
  nvlinks: number;
  rank: number | null;
}

export interface Graph {
  communicator: number;
  host: number;
  kind: string;
  speed_intra: number;
  speed_inter: number;
  type_intra: string | null;
  type_inter: string | null;
  channels: { nic_in: number | null; ranks: (number | null)[]; nic_out: number | null }[];
}

export interface Nic {
  host: number;
  name: string;
  pci: string;
  path: string;
  gdr: boolean;
  speed: number | null;
  steps: number;
  sent_bytes: number | null;
  received_bytes: number | null;
  busy_ns: number | null;
  rate: number | null;
  share: number | null;
  slowdown: number | null;
}

export interface Messages {
  communicator: number;
  from: number | null;
  to: number | null;
  count: number;
  bytes: number;
  late_sender_ns: number;
  late_receiver_ns: number;
}

export interface Phase {
  path: string[];
  ranges: number;
  ranges_ns: number;
  operations: number;
  bytes: number;
  budget: Budget;
}

export interface Steps {
  name: string;
  processes: number;
  duration_ns: Quantiles | null;
  trend_ns_per_step: number | null;
  steps: Step[];
}

export interface Step {
  number: number;
  start_ns: number;
  duration_ns: number;
  shortest_ns: number;
  slowest: number | null;
  ranks_ns: number;
  budget: Budget;
}

export interface CommunicatorCall {
  function: string;
  communicator: string;
  ranks: number;
  start_ns: number;
  unfinished: number;
  duration_ns: number;
  skew_ns: number;
  last_rank: number | null;
  last_process: string;
}

export interface Verdict {
  finding: 'unfinished' | 'causes' | 'healthy' | 'unclear' | 'nothing';
  sentence: string;
  is_partial: boolean;
  basis: string[];
  rest: string | null;
}

export interface Run {
  anchor: string;
  nccl_versions: string[];
  recorded: string[];
  commands: string[];
  start_ns: number | null;
  duration_ns: number;
  hosts: string[];
  processes: number;
  events: number;
  operations: number;
  instances: number;
  comparable: number;
  has_kernels: boolean;
  has_other_kernels: boolean;
  has_transfers: boolean;
  has_steps: boolean;
}

export interface Budget {
  operations_ns: number;
  waiting_ns: number;
  transfer_ns: number;
  unclear_ns: number;
  not_compared_ns: number;
}

export interface Quantiles {
  count: number;
  min: number;
  median: number;
  p95: number;
  p99: number;
  max: number;
  total: number;
}

export interface OperationClass {
  function: string;
  communicator: number;
  bytes_min: number;
  bytes_max: number;
  count: number;
  unfinished: number;
  timing: Record<string, number>;
  duration_ns: Quantiles | null;
  algbw: Quantiles | null;
  busbw: Quantiles | null;
  transfer_busbw: Quantiles | null;
  expected_busbw: number | null;
  expected_share: number | null;
  reduced_by: string[];
  comparable: number;
  skew_ns: Quantiles | null;
  budget: Budget;
  baseline: { busbw: number; share: number; is_transfer: boolean } | null;
}

export interface Rank {
  name: string;
  number: number | null;
  process: string;
  host: string;
  members: { communicator: number; rank: number; location: number }[];
  uncertainty_ns: number | null;
  budget: Budget;
  instances: number;
  last: number;
  last_expected: number;
  p_value: number;
  caused_ns: number;
  caused_alone_ns: number;
  inherited_ns: number;
  late_sender_ns: number;
  late_receiver_ns: number;
  awaited_ns: number;
  lost_ns: number;
  lateness_ns: number;
  trend_ns_per_s: number | null;
  change: Change | null;
  why: Why | null;
}

export interface Change {
  at_ns: number;
  before: number;
  after: number;
}

export interface LinkKey {
  communicator: number;
  from: number | null;
  to: number | null;
  peer: number | null;
  channel: number | null;
}

export interface Fit {
  points: number;
  latency_ns: number | null;
  rate: number | null;
  r_squared: number | null;
}

export interface Link extends LinkKey {
  steps: number;
  bytes: number;
  busy_ns: number;
  rate: number | null;
  all: Fit | null;
  least: Fit | null;
  /** `[start_ns, bytes, duration_ns]` */
  points: [number, number, number][];
  slowdown: number | null;
  change: Change | null;
  waits: Record<string, number>;
  from_nics: number[];
  to_nics: number[];
  nic_paths: string[];
  excess_ns: number;
}

export interface Cause {
  kind: CauseKind;
  rank: number | null;
  host: string | null;
  nics: number[];
  link: LinkKey | null;
  phase: CausePhase | null;
  why: Why | null;
  since_ns: number | null;
  lost_ns: number;
  share: number | null;
  instances: number;
  is_stall: boolean;
  sentence: string;
}

export interface CausePhase {
  path: string[];
  share: number;
}

export interface Why {
  reason: 'call' | 'launch' | 'gpu' | 'operation' | null;
  later_ns: number | null;
  phase: CausePhase | null;
  call_ns: number;
  launch_ns: number;
  gpu_ns: number;
  operation_ns: number;
  unknown_ns: number;
  missing: string | null;
}

export interface CriticalPath {
  from_ns: number;
  to_ns: number;
  operations: number;
  computing_ns: number;
  launching_ns: number;
  transfer_ns: number;
  warm_up_ns: number;
  unclear_ns: number;
  parts: PathPart[];
  sentence: string;
}

export interface PathPart {
  kind: 'computing' | 'launching' | 'transfer' | 'warm-up' | 'unclear';
  rank: number | null;
  function: string | null;
  communicator: number | null;
  link: LinkKey | null;
  phase: CausePhase | null;
  ns: number;
  share: number;
  times: number;
}

export interface Anomaly {
  kind: CauseKind;
  rank: number | null;
  link: LinkKey | null;
  class: number;
  sequence: number | null;
  start_ns: number;
  end_ns: number;
  median_ns: number;
  skew_ns: number;
  lost_ns: number;
  location: number;
  event: number | null;
  sentence: string;
}

export interface Overlap {
  rank: number;
  communication_ns: number;
  computation_ns: number;
  overlap_ns: number;
  exposed_ns: number;
}

export interface Completeness {
  kinds: Record<string, Record<string, number>>;
  other: Record<string, number>;
  callbacks_lost: number;
  callbacks_late: number;
  switches: number;
  problems: string[];
  problem_count: number;
  parts_left_out: string[];
  topology_unused: string[];
  ranks_missing: number;
  collectives_unmatched: number;
  matching: Matching;
}

export type Outcome = 'faster' | 'slower' | 'no-difference' | 'unclear';

export interface Comparison {
  format: number;
  outcome: Outcome;
  sentence: string;
  basis: string[];
  confidence: number;
  runs: Compared[];
  groups: Group[];
  ranges: { path: string[]; a: number; b: number; median: Difference }[];
  only_a: Kind[];
  only_b: Kind[];
  limit: Limit | null;
}

export interface Limit {
  share: number;
  answer: 'slower' | 'not-slower' | 'not-shown';
  sentence: string;
}

export interface Compared {
  run: Run;
  ranks: number;
  verdict: Verdict;
}

export interface Kind {
  function: string;
  ranks: number;
  hosts: number;
  communicators: string[];
  bytes_min: number;
  bytes_max: number;
  timing: string;
  operations: number;
  unfinished: number;
  count: number;
  total_ns: number | null;
}

export interface Group {
  a: Kind;
  b: Kind;
  outcome: Outcome;
  is_coarse: boolean;
  reason: string | null;
  median: Difference | null;
  p99: Difference | null;
  waiting: Difference | null;
  transfer: Difference | null;
}

export interface Difference {
  a_ns: number;
  b_ns: number;
  difference_ns: number;
  share: number | null;
  interval_ns: [number, number] | null;
  error_ns: number | null;
  resolution: number | null;
  slower_at_most: number | null;
  outcome: Outcome;
}

export interface Matching {
  /** By what ranks differ in. */
  mismatches: [string, Statement][];
  ranks_behind: Statement;
  unknown: Statement;
}

/** Lines, and how many there would be. */
export interface Statement {
  number: number;
  lines: string[];
}

/** What the timeline shows. Cells of the overview and events of chunks are in data elements of their own. */
export interface Timeline {
  begin_ns: number;
  /** The end. */
  duration_ns: number;
  hosts: string[];
  rows: Row[];
  locations: Location[];
  names: string[];
  /** Indices of names of ranges of the program. */
  ranges: number[];
  /** Indices of names of functions; the overview refers to them. */
  functions: number[];
  /** Attributes that many events have alike. */
  attributes: [string, string | number][][];
  overview: { bin_ns: number; bins: number };
  chunks: Chunk[];
  /** Times of which all events are in chunks, sorted and disjoint; of other times the longest are. */
  complete: [number, number][];
  /** How many events there are in equal parts of the time, by their begin. */
  all: number[];
  /** Folder of the chunks beside the page; null where there are none. */
  folder: string | null;
}

/** A rank in the timeline, or a process that no rank belongs to. */
export interface Row {
  name: string;
  /** Index in `hosts`. */
  host: number;
  /** Index in the report's ranks. */
  rank: number | null;
}

export type LocationKind =
  'range' | 'operation' | 'kernel' | 'call' | 'channel' | 'transfer' | 'step' | 'proxy' | 'other';

export interface Location {
  name: string;
  kind: LocationKind;
  /** Index in `rows`. */
  row: number;
  /** The reference in the archive. */
  id: number;
  /** Number of ranks of the communicator that it shows a rank of. */
  ranks: number | null;
}

export interface Chunk {
  begin_ns: number;
  /** Latest end of what begins in it. */
  end_ns: number;
  events: number;
  /** In the page, in a file beside it, or nowhere. */
  at: 'page' | 'file' | 'none';
}
