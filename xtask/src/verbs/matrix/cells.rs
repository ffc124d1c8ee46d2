//! The cells of the matrix: the ways in which each release is run.
//!
//! Not every combination is a cell. Each value of each setting occurs at least once; settings that exercise different
//! code of NCCL (who runs the proxy, whether there is one, how a communicator ends) occur in several combinations.

pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The arguments of `nccl-host`.
    pub(super) arguments: &'static str,
    pub(super) settings: Settings,
    /// The only algorithm that the archive may name, as NCCL spells it.
    pub(super) algorithm: Option<&'static str>,
    /// The only protocol that the archive may name.
    pub(super) protocol: Option<&'static str>,
    pub(super) memcheck: bool,
    pub(super) except: &'static [Exception],
}

type Settings = &'static [(&'static str, &'static str)];

pub(super) struct Exception {
    /// The first release, as `(minor, patch)` of 2.minor.patch.
    pub(super) from: (u32, u32),
    pub(super) to: (u32, u32),
    /// The defect in NCCL, and the evidence that it is NCCL's.
    pub(super) why: &'static str,
    /// Additional arguments of `nccl-host` that avoid the defect; if there are none, the cell cannot be run.
    pub(super) instead: Option<&'static str>,
}

impl Cell {
    /// Why a release cannot be run this way, or is run differently.
    pub(super) fn exception(&self, release: &str) -> Option<&'static Exception> {
        let mut numbers = release.split('.').skip(1).map(|word| word.parse().ok());
        let release: (u32, u32) = (numbers.next()??, numbers.next()??);
        self.except.iter().find(|exception| (exception.from..=exception.to).contains(&release))
    }

    pub(super) fn has(&self, argument: &str) -> bool {
        self.arguments.split(' ').any(|word| word == argument)
    }
}

const fn cell(name: &'static str, arguments: &'static str, about: &'static str) -> Cell {
    Cell { name, about, arguments, settings: &[], algorithm: None, protocol: None, memcheck: false, except: &[] }
}

impl Cell {
    /// Sets `NCCL_PROTO` and the name that the archive must then have.
    const fn protocol(self, settings: Settings, protocol: &'static str) -> Self {
        Self { settings, protocol: Some(protocol), ..self }
    }

    const fn tree(self, settings: Settings) -> Self {
        Self { settings, algorithm: Some("TREE"), ..self }
    }
}

/// All cells, in the order of the table's rows.
pub(super) const CELLS: &[Cell] = &[
    cell("processes", TWO_OF_TWO, "two processes of two threads, sockets, all operations"),
    cell("threads", "--threads 4 --exact", "four threads of one process, sockets, all operations"),
    cell(
        "hosts",
        "--procs 4 --threads 1 --hosts --exact",
        "four processes, each as if on a host of its own, all operations",
    ),
    cell(
        "init-all",
        "--threads 4 --init-all --end destroy --exact",
        "ncclCommInitAll; destroyed without ncclCommFinalize",
    ),
    cell("ll", TWO_OF_TWO, "protocol LL").protocol(&[("NCCL_PROTO", "LL")], "LL"),
    cell("ll128", TWO_OF_TWO, "protocol LL128").protocol(&[("NCCL_PROTO", "LL128")], "LL128"),
    cell("simple", "--threads 4 --exact", "protocol Simple").protocol(&[("NCCL_PROTO", "Simple")], "SIMPLE"),
    cell(
        "tree",
        "--procs 2 --threads 2 --ops allreduce,sendrecv,alltoall,graph",
        "tree; only operations that have one, and messages",
    )
    .tree(&[("NCCL_ALGO", "Tree")]),
    cell("tree-ll128", "--threads 4 --ops allreduce,sendrecv,alltoall", "tree and LL128 among threads")
        .tree(&[])
        .protocol(&[("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL128")], "LL128"),
    Cell {
        settings: &[("NCCL_SHM_DISABLE", "0")],
        ..cell(
            "shm",
            "--procs 2 --threads 2",
            "shared memory between two processes of two threads: no proxy operations",
        )
    },
    cell("shm-simple", "--threads 4", "shared memory among threads, protocol Simple, NCCL's choice of ring and tree")
        .protocol(&[("NCCL_SHM_DISABLE", "0"), ("NCCL_PROTO", "Simple")], "SIMPLE"),
    Cell {
        settings: &[("NCCL_NET_PLUGIN", "probe"), ("NCCL_NET", "Probe")],
        except: &[
            Exception { from: (23, 0), to: (25, 99), why: "network plugins have no events before 2.26", instead: None },
            Exception {
                from: (27, 0),
                to: (27, 99),
                why: "NCCL 2.27 follows a null pointer in ncclProfilerCallback (the proxy operation of the step) when a network \
                      plugin reports a transfer of a message that was merged with others of its group; the same with another \
                      plugin alone and with event mask 0",
                instead: Some(
                    "--ops allreduce,broadcast,reduce,allgather,reducescatter,sendrecv,group,graph,bcasts,split",
                ),
            },
        ],
        ..cell("net-plugin", TWO_OF_TWO, "a network plugin that reports events of its own")
    },
    cell("abort", "--procs 2 --threads 2 --end abort --exact", "ended by ncclCommAbort"),
    Cell {
        except: &[Exception {
            from: (23, 0),
            to: (25, 99),
            why: "ncclCommAbort of 2.23 to 2.25 does not return while an operation waits; the same without a profiler",
            instead: None,
        }],
        ..cell(
            "stuck",
            "--procs 2 --threads 2 --end stuck",
            "aborted while rank 0 is in an all-reduce that nobody joins",
        )
    },
    cell(
        "exit",
        "--procs 2 --threads 2 --end exit --exact",
        "the processes exit without destroying their communicators",
    ),
    cell(
        "graph",
        "--procs 2 --threads 2 --ops graph --rounds 2 --exact",
        "a captured graph launched three times, twice; each replay is there and says which it is",
    ),
    cell(
        "several",
        "--procs 2 --threads 2 --ops allreduce,several,split --exact",
        "three communicators at once, used in turn by one thread of each rank",
    ),
    cell(
        "several-threads",
        "--procs 2 --threads 2 --ops threads --exact",
        "four communicators at once, each used and destroyed by a thread of its own",
    ),
    cell(
        "destroy-order",
        "--procs 2 --threads 2 --ops one,sendrecv --end order --exact",
        "three communicators, destroyed in another order than made, and in another on each rank",
    ),
    cell(
        "nonblocking",
        "--procs 2 --threads 2 --nonblocking --exact",
        "nonblocking communicators, polled with ncclCommGetAsyncError",
    ),
    Cell {
        settings: UNFUSED,
        ..cell(
            "broadcasts",
            "--procs 2 --threads 2 --ops allreduce,broadcast,bcasts,alltoall,graph,split --rounds 2 --exact",
            "broadcasts, single and grouped, are operations of all releases; two processes of two threads",
        )
    },
    Cell {
        settings: UNFUSED,
        ..cell(
            "broadcasts-hosts",
            "--procs 4 --threads 1 --hosts --ops broadcast,bcasts,sendrecv --rounds 3 --exact",
            "broadcasts of four processes, each as if on a host of its own",
        )
    },
    cell(
        "nvtx",
        "--procs 2 --threads 2 --ranges --rounds 2 --exact",
        "every call through the interface or NVTX, none twice, and the program's ranges; two processes of two threads",
    ),
    Cell {
        memcheck: true,
        ..cell(
            "memcheck",
            "--threads 2 --ops one,sendrecv",
            "the recording half under Valgrind's memcheck: no error with this plugin on its stack",
        )
    },
];

/// NCCL 2.29 and later report broadcasts; others do not know the variable.
const UNFUSED: Settings = &[("NCCL_ALLGATHERV_ENABLE", "0")];
const TWO_OF_TWO: &str = "--procs 2 --threads 2 --exact";
