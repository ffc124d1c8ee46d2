//! The cells of the matrix: the ways in which each release is run.
//!
//! Not every combination, but each value of each setting at least once, and the ones that meet different code of NCCL
//! (who runs the proxy, whether there is one, how a communicator ends) in several combinations.

pub(super) struct Cell {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The arguments of `nccl-host`.
    pub(super) arguments: &'static str,
    pub(super) settings: &'static [(&'static str, &'static str)],
    /// The only algorithm that the archive may name, in NCCL's word.
    pub(super) algorithm: Option<&'static str>,
    /// The only protocol that the archive may name.
    pub(super) protocol: Option<&'static str>,
    pub(super) memcheck: bool,
    pub(super) except: &'static [Exception],
}

pub(super) struct Exception {
    /// The first release, as `(minor, patch)` of 2.minor.patch.
    pub(super) from: (u32, u32),
    /// The last one.
    pub(super) to: (u32, u32),
    /// The defect of NCCL, and how it is known to be NCCL's.
    pub(super) why: &'static str,
    /// Further arguments of `nccl-host` that steer around it; without any the cell cannot be had.
    pub(super) instead: Option<&'static str>,
}

impl Cell {
    /// Why a release cannot be run this way, or is run differently.
    pub(super) fn exception(&self, release: &str) -> Option<&'static Exception> {
        let mut numbers = release.split('.').skip(1).map(|word| word.parse().ok());
        let release: (u32, u32) = (numbers.next()??, numbers.next()??);
        self.except.iter().find(|exception| (exception.from..=exception.to).contains(&release))
    }

    pub(super) fn is_exact(&self) -> bool {
        self.arguments.split(' ').any(|word| word == "--exact")
    }
}

const PLAIN: Cell = Cell {
    name: "",
    about: "",
    arguments: "",
    settings: &[],
    algorithm: None,
    protocol: None,
    memcheck: false,
    except: &[],
};

/// All cells, in the order of the table's rows.
pub(super) const CELLS: &[Cell] = &[
    Cell {
        name: "processes",
        about: "two processes of two threads, sockets, all operations",
        arguments: "--procs 2 --threads 2 --exact",
        ..PLAIN
    },
    Cell {
        name: "threads",
        about: "four threads of one process, sockets, all operations",
        arguments: "--threads 4 --exact",
        ..PLAIN
    },
    Cell {
        name: "hosts",
        about: "four processes, each as if on a host of its own, all operations",
        arguments: "--procs 4 --threads 1 --hosts --exact",
        ..PLAIN
    },
    Cell {
        name: "init-all",
        about: "ncclCommInitAll; destroyed without ncclCommFinalize",
        arguments: "--threads 4 --init-all --end destroy --exact",
        ..PLAIN
    },
    Cell {
        name: "ll",
        about: "protocol LL",
        arguments: "--procs 2 --threads 2 --exact",
        settings: &[("NCCL_PROTO", "LL")],
        protocol: Some("LL"),
        ..PLAIN
    },
    Cell {
        name: "ll128",
        about: "protocol LL128",
        arguments: "--procs 2 --threads 2 --exact",
        settings: &[("NCCL_PROTO", "LL128")],
        protocol: Some("LL128"),
        ..PLAIN
    },
    Cell {
        name: "simple",
        about: "protocol Simple",
        arguments: "--threads 4 --exact",
        settings: &[("NCCL_PROTO", "Simple")],
        protocol: Some("SIMPLE"),
        ..PLAIN
    },
    Cell {
        name: "tree",
        about: "tree; only operations that have one, and messages",
        arguments: "--procs 2 --threads 2 --ops allreduce,sendrecv,alltoall,graph",
        settings: &[("NCCL_ALGO", "Tree")],
        algorithm: Some("TREE"),
        ..PLAIN
    },
    Cell {
        name: "tree-ll128",
        about: "tree and LL128 among threads",
        arguments: "--threads 4 --ops allreduce,sendrecv,alltoall",
        settings: &[("NCCL_ALGO", "Tree"), ("NCCL_PROTO", "LL128")],
        algorithm: Some("TREE"),
        protocol: Some("LL128"),
        ..PLAIN
    },
    Cell {
        name: "shm",
        about: "shared memory between two processes of two threads: no proxy operations",
        arguments: "--procs 2 --threads 2",
        settings: &[("NCCL_SHM_DISABLE", "0")],
        ..PLAIN
    },
    Cell {
        name: "shm-simple",
        about: "shared memory among threads, protocol Simple, NCCL's choice of ring and tree",
        arguments: "--threads 4",
        settings: &[("NCCL_SHM_DISABLE", "0"), ("NCCL_PROTO", "Simple")],
        protocol: Some("SIMPLE"),
        ..PLAIN
    },
    Cell {
        name: "net-plugin",
        about: "a network plugin that reports events of its own",
        arguments: "--procs 2 --threads 2 --exact",
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
        ..PLAIN
    },
    Cell {
        name: "abort",
        about: "ended by ncclCommAbort",
        arguments: "--procs 2 --threads 2 --end abort --exact",
        ..PLAIN
    },
    Cell {
        name: "stuck",
        about: "aborted while rank 0 is in an all-reduce that nobody joins",
        arguments: "--procs 2 --threads 2 --end stuck",
        except: &[Exception {
            from: (23, 0),
            to: (25, 99),
            why: "ncclCommAbort of 2.23 to 2.25 does not return while an operation waits; the same without a profiler",
            instead: None,
        }],
        ..PLAIN
    },
    Cell {
        name: "exit",
        about: "the processes end without a word to NCCL",
        arguments: "--procs 2 --threads 2 --end exit --exact",
        ..PLAIN
    },
    Cell {
        name: "graph",
        about: "a captured graph launched three times, twice; each replay is there and says which it is",
        arguments: "--procs 2 --threads 2 --ops graph --rounds 2 --exact",
        ..PLAIN
    },
    Cell {
        name: "several",
        about: "three communicators at once, used in turn by one thread of each rank",
        arguments: "--procs 2 --threads 2 --ops allreduce,several,split --exact",
        ..PLAIN
    },
    Cell {
        name: "several-threads",
        about: "four communicators at once, each used and destroyed by a thread of its own",
        arguments: "--procs 2 --threads 2 --ops threads --exact",
        ..PLAIN
    },
    Cell {
        name: "destroy-order",
        about: "three communicators, destroyed in another order than made, and in another on each rank",
        arguments: "--procs 2 --threads 2 --ops one,sendrecv --end order --exact",
        ..PLAIN
    },
    Cell {
        name: "nonblocking",
        about: "nonblocking communicators, polled with ncclCommGetAsyncError",
        arguments: "--procs 2 --threads 2 --nonblocking --exact",
        ..PLAIN
    },
    Cell {
        name: "memcheck",
        about: "the recording half under Valgrind's memcheck: no error with this plugin on its stack",
        arguments: "--threads 2 --ops one,sendrecv",
        memcheck: true,
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_holds_for_its_releases_only() {
        let cell = CELLS.iter().find(|cell| cell.name == "net-plugin").unwrap();
        assert!(cell.exception("2.23.4").is_some());
        assert!(cell.exception("2.25.1").is_some());
        assert!(cell.exception("2.26.2").is_none());
        assert!(cell.exception("2.27.7").unwrap().instead.is_some());
        assert!(CELLS[0].exception("2.23.4").is_none());
    }

    #[test]
    fn names_are_names() {
        for (number, cell) in CELLS.iter().enumerate() {
            assert!(CELLS[..number].iter().all(|other| other.name != cell.name));
            assert!(cell.name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'));
        }
    }
}
