//! The table of the variables: what `docs/REFERENCE.md` and `nccl-otf2 run --help` say.

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub values: &'static str,
    /// What holds when it is not set.
    pub default: &'static str,
    /// What it does, in Markdown.
    pub doc: &'static str,
}

/// All variables that start with `NCCL_OTF2_`.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "NCCL_OTF2_DIR",
        values: "path",
        default: "`nccl-otf2-<job id>`, without a job id `nccl-otf2-<date>-<time>`",
        doc: "Where the archive goes: one directory for all processes of a job. `%h` host, `%p` process id, `%j` job id, `%r` rank, `%%` a percent sign. Without a job id in the environment each process would choose its own time: set this variable for jobs of several processes (`nccl-otf2 run` does).",
    },
    Variable {
        name: "NCCL_OTF2_EVENTS",
        values: "preset, kinds or number, comma-separated",
        default: "`standard`",
        doc: "What to record. `light`: GroupApi, CollApi, P2pApi, KernelLaunch, Group, Coll, P2p, CeColl, CeSync, CeBatch. `standard`: light and ProxyOp. `full`: everything. Kinds by NCCL's names in any case, with `-` in front to leave one out (`standard,KernelCh,-ProxyOp`; `-KernelCh` leaves out KernelPhase as well, with which NCCL would add it again), or NCCL's mask as a number (`0x80e`). `NCCL_PROFILE_EVENT_MASK` (a number) is used when this is not set.",
    },
    Variable {
        name: "NCCL_OTF2_MODE",
        values: "`trace`, `flight` or `off`",
        default: "`trace`",
        doc: "`flight` keeps only the end of the recording ([GUIDE.md](GUIDE.md#flight-recordings)). `off` loads the plugin and records nothing.",
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`64M`; with `NCCL_OTF2_FLIGHT_SECONDS`, `NCCL_OTF2_MAX_SIZE`",
        doc: "With `NCCL_OTF2_MODE=flight`: most disk space of one process. The oldest records go first, but each recording thread keeps 1M to 2M of its own, whatever is given here. 8M at least.",
    },
    Variable {
        name: "NCCL_OTF2_FLIGHT_SECONDS",
        values: "seconds",
        default: "not limited",
        doc: "With `NCCL_OTF2_MODE=flight`: how long records are kept, at least; they go by the mebibyte.",
    },
    Variable {
        name: "NCCL_OTF2_DUMP_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`USR2`",
        doc: "The signal that asks for a snapshot of the job ([GUIDE.md](GUIDE.md#snapshots-of-a-running-job)), sent to any of its processes. A handler that the program had before is called, too; a default action, which would end the process, is not taken.",
    },
    Variable {
        name: "NCCL_OTF2_TOGGLE_SIGNAL",
        values: "`USR1`, `USR2`, a real-time signal as a number, or `none`",
        default: "`none`",
        doc: "The signal that switches the recording of the process that gets it off, and on again ([GUIDE.md](GUIDE.md#switch-recording-while-the-job-runs)). Handlers that the program had before are treated as for `NCCL_OTF2_DUMP_SIGNAL`, of which it must differ.",
    },
    Variable {
        name: "NCCL_OTF2_WINDOW",
        values: "`100-200`, `100-`, comma-separated, or `none`",
        default: "`none`",
        doc: "Steps to record: from which collective to which one of the largest communicator, counted from 1 ([GUIDE.md](GUIDE.md#record-only-some-steps)). What a CUDA graph captures counts once, not at each replay (from NCCL 2.28 on).",
    },
    Variable {
        name: "NCCL_OTF2_JOURNAL_DIR",
        values: "path (with `%h %p %j %r`)",
        default: "inside `NCCL_OTF2_DIR`",
        doc: "Where the journals lie while the job runs, for jobs whose output directory is slow to map (some network file systems) or small: node-local storage. A journal there can be turned into an archive on its own node only.",
    },
    Variable {
        name: "NCCL_OTF2_MAX_SIZE",
        values: "bytes, with K, M, G or T",
        default: "`8G`",
        doc: "Most disk space for the journal of one process. 3M at least: each recording thread needs 1M, the plugin's own thread another. When it is reached recording stops, the rest is counted, and the archive says so.",
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE",
        values: "`inline` or `offline`",
        default: "`inline`",
        doc: "`inline` writes the archive at the last `ncclCommDestroy` or at exit; `offline` leaves the journals to `nccl-otf2 finalize`.",
    },
    Variable {
        name: "NCCL_OTF2_FINALIZE_TIMEOUT",
        values: "seconds",
        default: "`60`",
        doc: "Longest time that writing inline may take; then the journal stays and the closing line names the command that finishes the work.",
    },
    Variable {
        name: "NCCL_OTF2_KEEP_JOURNAL",
        values: "`0` or `1`",
        default: "`0`",
        doc: "Keep the journal when it has been written, so that it can be written again by another version. A damaged one is kept anyway.",
    },
    Variable {
        name: "NCCL_OTF2_LEVEL",
        values: "`light`, `standard` or `full`",
        default: "`full`",
        doc: "How much of the recording goes into the archive, with the sets of `NCCL_OTF2_EVENTS`. The rest is counted, and still tells when operations ran. `nccl-otf2 finalize --level` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_METRICS",
        values: "`bytes-in-flight`, `bandwidth`, `network-bandwidth`, comma-separated; `all` or `none`",
        default: "`none`",
        doc: "Metrics to write. `nccl-otf2 finalize --metrics` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_COMM_LANES",
        values: "`stream` or `cpu`",
        default: "`stream`",
        doc: "What the locations of communicators are: streams of the GPU, or threads of the process for tools that show communication of threads only. `nccl-otf2 finalize --comm-lanes` changes it afterwards.",
    },
    Variable {
        name: "NCCL_OTF2_COLLECTIVES",
        values: "`blocking`, `nonblocking` or `none`",
        default: "`blocking`",
        doc: "Which communication records collectives have: a pair around the operation, a request when it was enqueued and its completion, or none. `nccl-otf2 finalize --collectives` changes it afterwards where the journals were kept.",
    },
    Variable {
        name: "NCCL_OTF2_GPU",
        values: "`auto`, `cupti`, `events` or `off`",
        default: "`auto`",
        doc: "How GPU work that NCCL launched is timed ([GPU.md](GPU.md)). `cupti`: by CUPTI's records. `events`: by CUDA events around launches, which disturb no other tool. `auto`: by CUPTI unless another tool may use it, else by events; a line says which. `off`: nothing of CUDA's is called, and the trace does not say which GPUs there are either.",
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_KERNELS",
        values: "`nccl` or `all`",
        default: "`nccl`",
        doc: "With CUPTI: which kernels are recorded, NCCL's or all of the process.",
    },
    Variable {
        name: "NCCL_OTF2_CUPTI_LIB",
        values: "path",
        default: "the library that is loaded already, else the one that fits the CUDA runtime",
        doc: "With CUPTI: the file of its library.",
    },
    Variable {
        name: "NCCL_OTF2_SCOREP",
        values: "`auto`, `on` or `off`",
        default: "`auto`",
        doc: "Whether calls and operations are shown in a measurement of Score-P that runs in the same process ([SCOREP.md](SCOREP.md)), beside our own archive. `on` warns where that cannot be done.",
    },
    Variable {
        name: "NCCL_OTF2_VERBOSITY",
        values: "`quiet`, `normal` or `verbose`",
        default: "`normal`",
        doc: "`normal`: one line at start and one at the end through NCCL's log (`NCCL_DEBUG=INFO` shows them), warnings on stderr as well. `quiet`: warnings only. `verbose`: both lines on stderr too, and what was decided; below NCCL 2.27, which lends plugins no log, only this shows them.",
    },
];
