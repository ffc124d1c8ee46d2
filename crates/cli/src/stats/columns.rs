//! What the columns of the tables mean, for `stats --help`.

pub(super) const COLUMNS: &str = "\
Columns; – is nothing, or not known. Those of several tables:
  waiting, transfer: share until the last rank has come, and from then on, without warm-up
  unclear: share that the clocks or the timing cannot split
  lost: what all ranks would save without it; `ranks` has it of late ranks only
  chance: how likely chance alone does this, at most
  slowdown: time of its steps ÷ that of as many of the better links that do the same
  changed_at, before, after: when lateness or slowdown changed, if once, and its values
  rate: bytes ÷ the time in which some were under way
causes
  share: lost ÷ the time of all ranks in operations
  cause, sentence: its kind and who; the same in words
  since, until: when it began and ended, if it is not of the whole run
operations
  function, bytes, communicator: a row has sizes from bytes_min to bytes
  count, unfinished: operations, and those without an end, counted on every rank
  median, p99, min, p95, max, total: of the durations on each rank
  busbw, transfer_busbw, algbw: medians: as in nccl-tests, without waiting, as in nccl-tests
  expected_busbw, of_expected: by NCCL's model of its topology; which part of that was reached
  reduced_by: NVLS, or a network that reduces: busbw may exceed that of links
  baseline, of_baseline: bus bandwidth of --baseline; the part of it that was reached
  timing: what measured them: see `info --help`
  comparable: collectives whose arrivals can be compared
  skew_median, skew_p99: from the first arrival to the last
ranks
  rank, host, process: who
  operations: time with at least one operation
  awaited: what others waited while it was the last to come, whoever caused it
  own: its time between operations: program, host and other work of its GPU
  typical: what `own` exceeds that of its peers by: the median of all comparisons, late or not
  longer: by how much it exceeds its peers in all, beyond what is ordinary among them
  late_in: the share of comparisons in which it does
  alone: what the others would save if only this rank was not late
  why: which part delays it (call, launch, GPU), by how much, and in which range
  not_compared: share of operations of a single rank, or without those of the others
  last, caused: how often it came last to a collective, and what the others then waited
  collectives: in which it took part, and that can be compared
  trend_per_s: by how much its lateness grows each second
pairs, channels
  from, to, channel, communicator: which link
  steps, bytes: sent over it
  latency, rate_fit, latency_least, rate_least, slow_steps: see above
  r_squared, r_squared_least: how well these lines fit, 1 at best
  typical_slowdown: slowdown of the median step
  busy: time with at least one step under way
  nic, to_nic, path: interfaces of both ends; how far the sender's GPU is from its own (NCCL's PIX to SYS)
  send_gpu_wait, send_peer_wait, send_wait: for the sender's GPU, a free buffer, the network
  recv_wait, recv_flush_wait, recv_gpu_wait: for data, their flush to memory, the receiver's GPU
nic
  host, nic, pci, gdr: which interface; whether it reaches the memory of GPUs
  sent, received, steps, busy: what it moved, and the time with at least one step sent under way
  speed, share: as the driver or NCCL states it; rate ÷ speed
messages
  from, to, communicator, count, bytes: which
  late_sender, late_receiver: how long the receiver waited for the sender, and the reverse
overlap
  rank, communication, computation: time with kernels of NCCL, and with others
  overlap, exposed, exposed_share: with both; with NCCL's only, and its share of communication
path
  part, rank, in, communicator: what the run's length consists of
  at_most, share: by how much the run would be shorter without this part
  times: how often the path goes through it
anomalies
  what: the collective, and why it took long
  start, end, skew, sequence: of the collective
  median: of its kind
  cause, event, event_on: kind of cause; the operation's nccl.event, and its rank
phase
  phase, ranges: path of ranges, and how often they were entered
  longest_on, longest: the rank with the most time in the range; – below 2 % more than the others
  others: the median of the other ranks
  time: of the range, summed over threads
  operations, in_operations, bytes: called in it: number, time, size
step
  step, begin: number, and when the first rank began it
  time, slowest_rank, fastest: of the slowest rank; of the fastest
  communication: time in operations ÷ time of the step
init
  call, communicator, ranks, unfinished: which; how many ranks called, and had not returned
  begin, time: of the first call; of the longest
  first_to_last, last_rank, last_process: from the first call to the last, and whose that was";
