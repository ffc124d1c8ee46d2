//! The operations that `--ops` names.

mod collectives;
mod combined;
mod communicators;
mod messages;
mod repeated;
mod wrong;

pub(crate) use communicators::further_communicators;

use crate::nccl::Version;
use crate::rank::Rank;
use anyhow::Context as _;

/// One entry of `--ops`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    run: fn(&Rank<'_>) -> anyhow::Result<()>,
    /// Whether `all` includes it on this release in this round (counted from 0).
    in_all: fn(Version, u64) -> bool,
}

impl Operation {
    /// Runs it on this rank; all ranks run the same ones in the same order.
    pub(crate) fn run(&self, rank: &Rank<'_>) -> anyhow::Result<()> {
        (self.run)(rank).with_context(|| {
            format!(
                "rank {}, {} of round {}",
                rank.me(),
                self.name,
                rank.round()
            )
        })
    }
}

fn always(_: Version, _: u64) -> bool {
    true
}

fn never(_: Version, _: u64) -> bool {
    false
}

/// NCCL 2.29 and 2.30 do not profile broadcasts, and the kernel's count of works runs ahead of the host's after
/// batched broadcasts and sends to oneself: a profiler that asks for kernel channels can then make NCCL wait for
/// ever for a work that was not profiled.
fn counts_broadcasts(version: Version) -> bool {
    !(22900..23100).contains(&version.0)
}

const OPERATIONS: &[Operation] = &[
    Operation {
        name: "one",
        run: collectives::one,
        in_all: |_, _| false,
    },
    Operation {
        name: "allreduce",
        run: collectives::all_reduce,
        in_all: always,
    },
    Operation {
        name: "broadcast",
        run: collectives::broadcast,
        in_all: |version, round| counts_broadcasts(version) || round == 0,
    },
    Operation {
        name: "reduce",
        run: collectives::reduce,
        in_all: always,
    },
    Operation {
        name: "allgather",
        run: collectives::all_gather,
        in_all: always,
    },
    Operation {
        name: "reducescatter",
        run: collectives::reduce_scatter,
        in_all: always,
    },
    Operation {
        name: "sendrecv",
        run: messages::ring,
        in_all: always,
    },
    Operation {
        name: "alltoall",
        run: messages::all_to_all,
        in_all: always,
    },
    Operation {
        name: "group",
        run: combined::group,
        in_all: always,
    },
    Operation {
        name: "graph",
        run: combined::graph,
        // Before 2.26.5 a graph after any other operation stops the kernel-channel events and hangs the end.
        in_all: |version, _| !(22600..22605).contains(&version.0),
    },
    Operation {
        name: "bcasts",
        run: combined::broadcasts,
        in_all: |version, _| counts_broadcasts(version),
    },
    Operation {
        name: "calls28",
        run: messages::calls_of_2_28,
        in_all: |version, _| version >= Version(22800),
    },
    Operation {
        name: "split",
        run: communicators::split,
        in_all: always,
    },
    Operation {
        name: "several",
        run: communicators::alternating,
        in_all: never,
    },
    Operation {
        name: "threads",
        run: communicators::by_threads,
        in_all: never,
    },
    Operation {
        name: "uneven",
        run: communicators::uneven,
        in_all: never,
    },
    Operation {
        name: "repeat",
        run: repeated::repeat,
        in_all: never,
    },
    Operation {
        name: "late",
        run: wrong::late,
        in_all: never,
    },
    Operation {
        name: "mismatch",
        run: wrong::mismatch,
        in_all: never,
    },
    Operation {
        name: "crossed",
        run: wrong::crossed,
        in_all: never,
    },
    Operation {
        name: "chain",
        run: wrong::chain,
        in_all: never,
    },
];

/// The operations of one round.
pub(crate) fn of_round(names: &[String], version: Version, round: u64) -> Vec<Operation> {
    let all = names.iter().any(|name| name == "all");
    OPERATIONS
        .iter()
        .filter(|op| {
            names.iter().any(|name| name == op.name) || (all && (op.in_all)(version, round))
        })
        .copied()
        .collect()
}

/// Checks the names given to `--ops`.
pub(crate) fn check_names(names: &[String]) -> anyhow::Result<()> {
    for name in names {
        let known = name == "all" || OPERATIONS.iter().any(|op| op.name == name);
        anyhow::ensure!(
            known,
            "--ops: no operation {name:?}; there are all, {}",
            OPERATIONS
                .iter()
                .map(|op| op.name)
                .collect::<Vec<_>>()
                .join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str, version: i32, round: u64) -> Vec<&'static str> {
        let list: Vec<String> = list.split(',').map(str::to_owned).collect();
        of_round(&list, Version(version), round)
            .iter()
            .map(|op| op.name)
            .collect()
    }

    #[test]
    fn all_leaves_out_what_hangs_a_release() {
        assert!(names("all", 22809, 5).contains(&"bcasts"));
        assert!(!names("all", 23007, 0).contains(&"bcasts"));
        assert!(names("all", 23007, 0).contains(&"broadcast"));
        assert!(!names("all", 23007, 1).contains(&"broadcast"));
        assert!(!names("all", 22602, 0).contains(&"graph"));
        assert!(!names("all", 22304, 0).contains(&"calls28"));
        assert!(!names("all", 23203, 0).contains(&"one"));
    }

    #[test]
    fn a_named_operation_is_always_run() {
        assert_eq!(names("bcasts", 23007, 3), ["bcasts"]);
        assert_eq!(names("one,all", 22304, 0)[0], "one");
    }

    #[test]
    fn an_unknown_name_is_refused() {
        let error = check_names(&["allreduce".into(), "gatherall".into()]).unwrap_err();
        assert!(error.to_string().contains("\"gatherall\""), "{error}");
    }
}
