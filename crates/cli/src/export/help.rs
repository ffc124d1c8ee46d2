//! The text of `export --help`.

pub(super) const EXAMPLES: &str = "\
Examples:
  nccl-otf2 export --format perfetto trace -o trace.pftrace
  nccl-otf2 export --format perfetto trace -o start.pftrace --to 5s --rank 0,1
  nccl-otf2 export --format parquet trace -o tables
  nccl-otf2 export --format kineto trace -o kineto
  nccl-otf2 export --format kineto trace -o both --into torch-traces/*.pt.trace.json.gz
  nccl-otf2 export --format xplane trace -o logdir/plugins/profile/run1/nccl.xplane.pb
  nccl-otf2 export --format xplane trace --into host.xplane.pb -o both.xplane.pb
  nccl-otf2 export --format xplane trace --into logdir/plugins/profile/run1/*.xplane.pb -o logdir/plugins/profile/both
  nccl-otf2 export --format scalasca trace -o scalasca
  nccl-otf2 export --format chakra trace -o chakra
  nccl-otf2 export --format nccl-tests trace -o baseline.sh
  nccl-otf2 export --format jsonl trace -o streams
  nccl-otf2 export --format jsonl --schema minimal trace -o streams

perfetto: one file. Open it in https://ui.perfetto.dev (nothing is uploaded), or ask it with SQL: \
`trace_processor_shell -q query.sql trace.pftrace`, or the Python package perfetto. Processes have their threads, \
their GPUs with communicators, channels and streams, and the network; arrows lead from a call to the launch, the \
operation and its transfers, and from rank to rank of one collective. Times are ns since 1970.

parquet: a directory with the tables instances, ranks, operations, calls, transfers, steps and kernels, one file for \
each process: `table=operations/host=NODE/process=3/operations.parquet`. Host and process are columns for programs \
that know Hive's partitions, as DuckDB, Dask and Spark do. `instance` joins the operations of one collective, `event` \
and `parent` what belongs together. Columns: docs/REFERENCE.md; questions to three programs: docs/EXPORTS.md. A table \
without rows has no file.

kineto: a directory with a file for each rank, as PyTorch's profiler writes them. HTA reads it: \
`TraceAnalysis(trace_dir=\"kineto\")`. Operations stand for kernels where no kernels were recorded; nccl.timing says \
what they were measured by. With --into: copies of traces that torch.profiler made of the same job. What was in them \
stays as it is; NCCL's kernels say more: algorithm, protocol, bandwidth, how long they waited for the last rank. A \
kernel that can be several operations gets nothing, and is counted. \
Tracks for communicators and network are added. A trace whose clock cannot be related, or that is of another job, is \
refused.

xplane: one file, NAME.xplane.pb, for TensorBoard (plugin profile) and xprof: the Trace Viewer shows a device \
`NCCL rank N` for each rank, with calls, operations of each communicator, network, and kernels. --into takes \
profiles of TensorFlow or JAX of the same job: a new file begins with the bytes of the old one, and the planes of the \
ranks on its host follow, with times relative to the profile's begin (profile_start_time in its plane Task \
Environment), by the clock of that host. Of several profiles -o is a directory. What began before or after the \
profile is left out. A profile is refused that does not say when it began, is of another time, or, of a job on several \
hosts, does not say its host: by its field hostnames, or its name HOST.xplane.pb.

scalasca: a directory. `mpirun -np 8 scout.mpi scalasca/0-world/traces.otf2` finds and blames waiting. The analyser \
knows MPI: so one archive is made of each communicator, in the words of MPI. A rank is a process with one thread; an \
operation of NCCL's is a call of MPI's, from when it began to run on the rank to when it ended. Run it on as many \
processes as the communicator has ranks. It waits for ever where something is missing on one rank. Therefore only \
what all ranks have is exported: collectives up to the first that differs, messages with both ends. A communicator of \
which something was lost or a rank not recorded is left out. Pipit reads these archives, too: \
`pipit.Trace.from_otf2(\"scalasca/0-world\")`. It sorts events by time, so no two of a rank share one: where they do \
in the archive, the later ones are moved by the fewest ns that keep their order, and it is said how many and how far.

chakra: a directory with an execution trace for each rank, trace.RANK.et, and the communicators in comm_group.json. \
ASTRA-sim simulates them on another network, and Chakra's tools show them. A node is a collective, a send, a receive, \
or what a rank computed between: the program's kernels if they were recorded, else the pauses between operations. An \
operation depends on those before it on its communicator and on what was computed before it.

nccl-tests: a shell script with a command for each function, type, range of sizes and shape of communicator of the \
job, the most time first. `stats --baseline` compares the job with what the script prints.

jsonl: a directory with a file for each process, one callback of NCCL's a line, in the order in which they are \
complete. It is made of journals, not of the archive, which has no handles and only the states that it shows: the job \
must have kept them (NCCL_OTF2_KEEP_JOURNAL=1), or be running or killed and not finalized. `print --json` shows the \
records of an archive. --schema minimal writes what TU Dresden's minimal profiler does.

--comm and --rank keep what belongs to these ranks, the threads of their processes and the streams of their GPUs. \
--function keeps operations of these functions, their calls, and what belongs to them: transfers, channels, kernels. \
--from and --to keep what runs in this time, whole. Scalasca takes --comm only.

Exit codes: 0 exported, 1 a communicator was left out (scalasca), or a journal is damaged or cannot be read (jsonl), \
2 nothing was exported, or wrong usage. docs/REFERENCE.md has the fields of --json.";
