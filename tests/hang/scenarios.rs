//! Faults of jobs of real NCCL, and what `nccl-otf2 hang` has to say of each: while it hangs, from the journals of its
//! killed processes, and from the archive. And jobs that are well, of which it has to say that.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use whole_plugin::built;
use whole_plugin::machine::{RELEASE, tested};
use whole_plugin::process::{FinishedProcess, run};
use whole_plugin::scratch::Scratch;

use crate::job::Hanging;

/// A fault, and what is said of it.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    /// What each rank calls: `nccl-host --help` explains the words.
    programs: &'static str,
    variables: &'static [(&'static str, &'static str)],
    threads: &'static str,
    release: &'static str,
    says: Says,
    /// While it hangs, if that differs.
    live: Option<Says>,
    /// Of the archive, if that differs.
    archive: Option<Says>,
    /// For how many seconds it goes on after `hang` has said so.
    lasts: u64,
}

#[derive(Clone, Copy, Debug)]
struct Says {
    kind: &'static str,
    reason: &'static str,
    confidence: &'static str,
    ranks: &'static [u64],
    /// What the line has once the job is over.
    line: &'static str,
}

impl Says {
    fn is_said_in(&self, verdict: &Value) -> bool {
        let text = |name: &str| verdict[name].as_str().unwrap_or("");
        let ranks: Vec<u64> = verdict["ranks"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        (text("kind"), text("reason"), text("confidence")) == (self.kind, self.reason, self.confidence)
            && ranks == self.ranks
    }

    fn has_line(&self, verdict: &Value) -> bool {
        verdict["line"].as_str().is_some_and(|text| text.contains(self.line))
    }
}

const fn said(
    kind: &'static str,
    reason: &'static str,
    confidence: &'static str,
    ranks: &'static [u64],
    line: &'static str,
) -> Says {
    Says { kind, reason, confidence, ranks, line }
}

const fn row(name: &'static str, programs: &'static str, says: Says) -> Row {
    Row { name, programs, variables: &[], threads: "1", release: RELEASE, says, live: None, archive: None, lasts: 0 }
}

impl Row {
    const fn with(mut self, variables: &'static [(&'static str, &'static str)]) -> Self {
        self.variables = variables;
        self
    }

    const fn on_release(mut self, release: &'static str) -> Self {
        self.release = release;
        self
    }

    const fn threads(mut self, threads: &'static str) -> Self {
        self.threads = threads;
        self
    }

    const fn live(mut self, says: Says) -> Self {
        self.live = Some(says);
        self
    }

    const fn archive(mut self, says: Says) -> Self {
        self.archive = Some(says);
        self
    }

    const fn lasts(mut self, seconds: u64) -> Self {
        self.lasts = seconds;
        self
    }
}

const LIGHT: &[(&str, &str)] = &[("NCCL_OTF2_EVENTS", "light")];
const FULL: &[(&str, &str)] = &[("NCCL_OTF2_EVENTS", "full")];
const NO_NVTX: &[(&str, &str)] = &[("NCCL_OTF2_NVTX", "off")];

/// Two communicators on one stream, which rank 1 uses in the other order.
const CROSSED: &str = "A.ar B.ar sync A.ar B.ar; A.ar B.ar sync B.ar A.ar";
const CROSSED_SAYS: Says = said(
    "hang",
    "deadlock",
    "certain",
    &[0, 1],
    "HANG: ranks 0-1 waited for each other: they use 2 communicators in different orders, for ",
);

/// Rank 1 leaves out a call in the second of three communicators.
const LEFT_OUT: &str =
    "3{ A.ar B.ar C.ar sync } 2{ A.ar B.ar C.ar }; 3{ A.ar B.ar C.ar sync } A.ar C.ar A.ar B.ar C.ar";
const LEFT_OUT_SAYS: Says = said(
    "hang",
    "deadlock",
    "likely",
    &[1],
    "HANG: rank 1 left out one ncclAllReduce of comm 2 (2); now ranks 0-1 waited for each other, for ",
);

/// Three ranks that send to the next one before they receive.
const SEND_FIRST: &str = "A.ar sync A.s1:1000000 A.r2:1000000; A.ar sync A.s2:1000000 A.r0:1000000; \
    A.ar sync A.s0:1000000 A.r1:1000000";
const SEND_FIRST_SAYS: Says = said(
    "hang",
    "deadlock",
    "certain",
    &[0, 1, 2],
    "HANG: ranks 0-2 waited for each other: each sends before it receives, and no receive begins, for ",
);

#[rustfmt::skip]
const ORDERS: &[Row] = &[
    row("two communicators in two orders", CROSSED, CROSSED_SAYS),
    row("two communicators in two orders, light", CROSSED, CROSSED_SAYS).with(LIGHT),
    row("two communicators in two orders, full", CROSSED, CROSSED_SAYS).with(FULL),
    row("two communicators in two orders, without NVTX", CROSSED, CROSSED_SAYS).with(NO_NVTX),
    row("two communicators in two orders, 2.28", CROSSED, CROSSED_SAYS).on_release("2.28.9"),
    // Before 2.28 no record names the stream.
    row("two communicators in two orders, 2.27", CROSSED, Says { confidence: "likely", ..CROSSED_SAYS }).on_release("2.27.7"),
    row("two communicators in two orders, 2.23", CROSSED, Says { confidence: "likely", ..CROSSED_SAYS }).on_release("2.23.4"),
    row("one of three ranks uses two communicators in another order",
        "2{ A.ar B.ar sync } A.ar B.ar; 2{ A.ar B.ar sync } A.ar B.ar; 2{ A.ar B.ar sync } B.ar A.ar",
        said("hang", "deadlock", "certain", &[2],
            "HANG: rank 2 used communicators in a different order than ranks 0-1; ranks 0-2 waited, for ")),
    row("one of three programs that wait for each operation uses two communicators in another order",
        "A.ar B.ar sync A.ar sync B.ar; A.ar B.ar sync A.ar sync B.ar; A.ar B.ar sync B.ar sync A.ar",
        said("hang", "deadlock", "likely", &[0, 1, 2],
            "HANG: ranks 0-2 waited for each other: they use 2 communicators in different orders, for ")),
    row("three pairs of ranks in a circle",
        "A.ar C.ar sync A.ar sync C.ar; A.ar B.ar sync B.ar sync A.ar; B.ar C.ar sync C.ar sync B.ar",
        said("hang", "deadlock", "likely", &[0, 1, 2],
            "HANG: ranks 0-2 waited for each other: they use 3 communicators in different orders, for ")),
    row("one of two ranks leaves out a call in one of three communicators", LEFT_OUT, LEFT_OUT_SAYS),
    row("left out, 2.27", LEFT_OUT, LEFT_OUT_SAYS).on_release("2.27.7"),
    row("left out, 2.27 without NVTX", LEFT_OUT, LEFT_OUT_SAYS).on_release("2.27.7").with(NO_NVTX),
    row("one of three ranks leaves out one call of a group over two communicators",
        "2{ ( A.ar B.ar ) } sync 3{ ( A.ar B.ar ) }; 2{ ( A.ar B.ar ) } sync 3{ ( A.ar B.ar ) }; \
         2{ ( A.ar B.ar ) } sync ( A.ar ) 2{ ( A.ar B.ar ) }",
        said("hang", "deadlock", "certain", &[2], "HANG: rank 2 left out one ncclAllReduce of comm 2 (3); ")),
    row("one rank makes a call too many in a communicator of two",
        "3{ A.ar B.ar sync } 2{ A.ar B.ar }; 3{ A.ar B.ar sync } 2{ A.ar B.ar }; \
         3{ A.ar C.ar sync } 2{ A.ar C.ar }; 3{ A.ar C.ar sync } A.ar C.ar C.ar A.ar C.ar",
        said("hang", "deadlock", "likely", &[3], "HANG: rank 3 made one ncclAllReduce of comm 3 (2) too many; ")),
    row("two ranks differ by one call, without anything before that says which is wrong",
        "A.ar B.ar B.ar A.ar; A.ar B.ar A.ar",
        said("hang", "deadlock", "cannot-tell-whom", &[0, 1],
            "HANG: rank 1 and rank 0 differ by one ncclAllReduce of ")),
    row("all send before they receive", SEND_FIRST, SEND_FIRST_SAYS),
    row("all send before they receive, light", SEND_FIRST, SEND_FIRST_SAYS).with(LIGHT),
    row("all send before they receive, without NVTX", SEND_FIRST,
        said("hang", "in-the-call", "likely", &[0, 1, 2],
            "HANG: ranks 0-2 were in the call that starts ncclSend of world (3), which did not return")).with(NO_NVTX)
        .archive(said("hang", "in-the-call", "likely", &[0, 1, 2],
                "HANG: ranks 0-2 were in ncclSend, which did not return")),
    row("two ranks send before they receive, after messages that went well",
        "A.ar sync 2{ A.s1 sync A.r1 sync } A.s1:4000000 A.r1:4000000; \
         A.ar sync 2{ A.r0 sync A.s0 sync } A.s0:4000000 A.r0:4000000",
        said("hang", "deadlock", "certain", &[0, 1],
            "HANG: ranks 0-1 waited for each other: each sends before it receives, and no receive begins, for ")),
    row("a message behind which a collective waits that its receiver is in",
        "A.ar B.ar ( A.s1 A.r2 ) sync 3{ B.ar }; A.ar B.ar ( A.s2 A.r0 ) sync A.s2:4000000 3{ B.ar }; \
         A.ar B.ar ( A.s0 A.r1 ) sync 3{ B.ar }",
        said("hang", "deadlock", "likely", &[1, 2],
            "HANG: ranks 1-2 waited for each other: rank 2 in ncclAllReduce, rank 1 in ncclSend, for ")),
    row("two ranks split a communicator while the third is in a collective",
        "A.ar sync A.split/B A.ar; A.ar sync A.split/B A.ar; A.ar sync A.ar",
        said("hang", "deadlock", "likely", &[0, 1, 2],
            "HANG: ranks 0-2 waited for each other: rank 2 in ncclAllReduce, ranks 0-1 in ncclCommSplit, for ")),
];

#[rustfmt::skip]
const DIFFERENCES: &[Row] = &[
    row("NCCL_ALGO on one rank",
        "3{ A.ar:100000 sync }; NCCL_ALGO=Tree 3{ A.ar:100000 sync }; 3{ A.ar:100000 sync }",
        said("hang", "mismatch", "certain", &[1],
            "HANG: the ranks of world (3) gave collective 1 different algorithms: rank 1 differs")),
    row("NCCL_ALGO on one rank, 2.23",
        "3{ A.ar:100000 sync }; NCCL_ALGO=Tree 3{ A.ar:100000 sync }; 3{ A.ar:100000 sync }",
        said("hang", "mismatch", "certain", &[1],
            "HANG: the ranks of world (3) gave collective 1 different algorithms: rank 1 differs")).on_release("2.23.4"),
    row("NCCL_PROTO on one rank",
        "3{ A.ar:100000 sync }; NCCL_PROTO=LL128 3{ A.ar:100000 sync }; 3{ A.ar:100000 sync }",
        said("hang", "mismatch", "certain", &[1],
            "HANG: the ranks of world (3) gave collective 1 different protocols: rank 1 differs")),
    row("one rank broadcasts another size",
        "A.ar A.bc:2000 sync A.bc:112 sync A.bc:4096 sync sleep; \
         A.ar A.bc:2000 sync A.bc:112 sync A.bc:4096 sync sleep; \
         A.ar A.bc:2000 sync A.bc:1120000 sync A.bc:4096 sync sleep",
        said("hang", "mismatch", "certain", &[2],
            "HANG: the ranks of world (3) gave collective 3 different counts: rank 2 differs")),
    row("one rank leaves out a collective of which each has its own size",
        "A.ar sync A.ar:4000 sync A.ar:8000 sync A.ar:12000 sync; \
         A.ar sync A.ar:4000 sync A.ar:8000 sync A.ar:12000 sync; A.ar sync A.ar:8000 sync A.ar:12000 sync sleep",
        said("hang", "mismatch", "certain", &[2],
            "HANG: the ranks of world (3) gave collective 2 different counts: rank 2 differs")),
    row("one rank reduces to another root",
        "A.ar A.rd sync A.ar sync; A.ar A.rd sync A.ar sync; A.ar A.rd/1 sync A.ar sync",
        said("hang", "mismatch", "certain", &[2],
            "HANG: the ranks of world (3) gave collective 2 different roots: rank 2 differs")),
    row("one rank swaps two collectives",
        "A.ar sync A.ag sync A.ar sync A.ar sync; A.ar sync A.ag sync A.ar sync A.ar sync; \
         A.ar sync A.ar A.ag sync A.ar sync",
        said("hang", "mismatch", "certain", &[2],
            "HANG: the ranks of world (3) gave collective 2 different functions: rank 2 differs")),
    row("one of two ranks leaves out the first call of a step",
        "8{ A.ar:4 sync A.ag A.rs sync }; \
         5{ A.ar:4 sync A.ag A.rs sync } A.ag A.rs sync 2{ A.ar:4 sync A.ag A.rs sync }",
        said("hang", "mismatch", "likely", &[1],
            "HANG: the ranks of world (2) gave collective 16 different functions: rank 1 differs")),
    row("one of two ranks reduces nothing", "A.ar sync A.ar sync A.ar; A.ar sync A.ar:0 sync A.ar",
        said("hang", "mismatch", "cannot-tell-whom", &[0, 1],
            "HANG: the ranks of world (2) gave collective 2 different ")),
    row("a receive of twice the size",
        "A.ar sync 2{ A.s1:1000000 sync } sleep; A.ar sync A.r0:1000000 sync A.r0:2000000 sync",
        said("hang", "mismatch", "cannot-tell-whom", &[0, 1],
            "HANG: the ranks of world (2) gave message 2 different sizes: rank 1 differs from rank 0; waited ")),
    row("a receive of twice the size, and the sender ends",
        "A.ar sync 2{ A.s1:1000000 sync }; A.ar sync A.r0:1000000 sync A.r0:2000000 sync",
        said("hang", "mismatch", "cannot-tell-whom", &[0, 1],
            "HANG: the ranks of world (2) gave message 2 different sizes: rank 1 differs from rank 0; waited ")),
    row("a ring in which one rank receives from the wrong neighbour",
        "A.ar ( A.s1 A.s2 A.r1 A.r2 ) sync ( A.s1 A.r2 ) sync; \
         A.ar ( A.s0 A.s2 A.r0 A.r2 ) sync ( A.s2 A.r2 ) sync; A.ar ( A.s0 A.s1 A.r0 A.r1 ) sync ( A.s0 A.r1 ) sync",
        said("hang", "mismatch", "likely", &[1], "HANG: rank 1 receives from rank 2, which never sends to it")),
];

#[rustfmt::skip]
const ABSENT: &[Row] = &[
    row("one rank does something else", "3{ A.ar sync }; 2{ A.ar sync } sleep; 3{ A.ar sync }",
        said("hang", "not-called", "certain", &[1],
            "HANG: rank 1 had not called ncclAllReduce #3 of world (3); ranks 0, 2 waited for up to ")),
    row("two ranks do something else", "2{ A.ar sync }; A.ar sync sleep; A.ar sync sleep; 2{ A.ar sync }",
        said("hang", "not-called", "certain", &[1, 2],
            "HANG: ranks 1-2 had not called ncclAllReduce #2 of world (4); ranks 0, 3 waited for up to ")),
    row("two of four threads in two processes: one does something else",
        "2{ A.ar sync }; 2{ A.ar sync }; 2{ A.ar sync }; A.ar sync sleep",
        said("hang", "not-called", "certain", &[3],
            "HANG: rank 3 had not called ncclAllReduce #2 of world (4); ranks 0-2 waited for up to ")).threads("2"),
    row("the root of a broadcast does not call it",
        "A.ar sync sleep; A.ar sync A.bc sync; A.ar sync A.bc sync",
        said("hang", "not-called", "certain", &[0],
            "HANG: rank 0 had not called ncclBroadcast #2 of world (3); ranks 1-2 waited for up to ")),
    row("rank 3 sleeps, rank 2 waits for it, and the others for rank 2",
        "A.ar sync A.ar; A.ar sync A.ar; A.ar B.ar sync B.ar sync A.ar; A.ar B.ar sync sleep",
        said("hang", "not-called", "certain", &[3], "HANG: rank 3 had not called ncclAllReduce #2 of ")),
    row("an exception on one rank, while the others have more in their queues",
        "A.ar sync 8{ A.ar }; A.ar sync 8{ A.ar }; A.ar sync sleep",
        said("hang", "not-called", "certain", &[2],
            "HANG: rank 2 had not called ncclAllReduce #2 of world (3); ranks 0-1 waited for up to ")),
    row("rank 1 sleeps, and so does rank 2, which has enqueued what waits for it",
        "A.ar sync A.ar; A.ar sync sleep; A.ar sync A.ar sleep",
        said("hang", "not-called", "certain", &[1],
            "HANG: rank 1 had not called ncclAllReduce #2 of world (3); ranks ")),
    row("one rank launches a graph too seldom",
        "A.ar sync [ A.ar ] 5{ launch sync }; A.ar sync [ A.ar ] 3{ launch sync } sleep",
        said("hang", "not-called", "certain", &[1],
            "HANG: rank 1 had not called ncclAllReduce #4 (graph) of world (2); rank 0 waited for ")),
    row("one rank does not come to a split",
        "A.ar sync A.split/B; A.ar sync A.split/B; A.ar sync sleep A.split/B",
        said("hang", "not-called", "certain", &[2],
            "HANG: rank 2 had not called ncclCommSplit; ranks 0-1 waited for up to ")),
    row("one rank does not come to the second communicator",
        "A.ar sync B.init; A.ar sync B.init; A.ar sync sleep B.init",
        said("hang", "not-called", "likely", &[2],
            "HANG: rank 2 had not called ncclCommInitRank; ranks 0-1 waited for up to ")),
    row("messages with a rank that does not call, the first of their pairs, without NVTX",
        "( A.s0 A.r0 A.s1 A.r1 ) sync; sleep A.ar",
        said("hang", "not-called", "likely", &[1],
            "HANG: rank 1 had not called its end of a group of 4 (ncclRecv, ncclSend)")).with(NO_NVTX),
    row("a message that is never sent, the first of its pair",
        "A.ar sync A.ar; A.ar sync A.r2 sync A.ar; A.ar sync sleep",
        said("hang", "not-called", "certain", &[2],
            "HANG: rank 2 had not called the ncclSend for rank 1's ncclRecv #1 of world (3); ")),
    row("a message that is never sent, after some that were",
        "A.ar sync A.ar; A.ar sync 4{ A.r2 sync } A.r2 sync A.ar; A.ar sync 4{ A.s1 sync } sleep",
        said("hang", "not-called", "certain", &[2],
            "HANG: rank 2 had not called the ncclSend for rank 1's ncclRecv #5 of world (3); ")),
    row("a watchdog aborts on one rank only",
        "A.ar sync A.ar wait:2 A.abort sleep; A.ar sync sleep; A.ar sync A.ar sync",
        said("hang", "not-called", "certain", &[1],
            "HANG: rank 1 had not called ncclAllReduce #2 of world (3); rank 2 waited for ")).lasts(2),
    row("a rank does not call, and a launcher kills it long before the others",
        "2{ A.ar sync }; A.ar sync wait:3 kill; 2{ A.ar sync }",
        said("hang", "not-called", "certain", &[1],
            "HANG: rank 1 had not called ncclAllReduce #2 of world (3) for ")).lasts(4),
    row("one rank never ends its group", "2{ A.ar sync }; 2{ A.ar sync }; A.ar sync ( A.ar sleep",
        said("hang", "group-open", "certain", &[2],
            "HANG: rank 2 opened a group and had not ended it, so ncclAllReduce #2 of world (3) is not started")),
    row("one rank destroys the communicator early",
        "2{ A.ar sync }; 2{ A.ar sync }; A.ar sync A.destroy exit",
        said("hang", "ended", "certain", &[2], "HANG: rank 2 had ended world (3)")),
];

/// A process that is gone, in a job that is over.
const GONE: Says = said("hang", "gone", "certain", &[1], "HANG: the records of rank 1 end ");

/// In these, rank 1 has received what the others sent after all before: nothing of it is under way when it goes.
#[rustfmt::skip]
const LOST: &[Row] = &[
    row("a process kills itself",
        "2{ A.ar sync } A.s1 sync A.ar; 2{ A.ar sync } A.r0 A.r2 sync kill; 2{ A.ar sync } A.s1 sync A.ar",
        GONE),
    row("a process exits in the middle",
        "2{ A.ar sync } A.s1 sync A.ar; 2{ A.ar sync } A.r0 A.r2 sync exit; 2{ A.ar sync } A.s1 sync A.ar",
        GONE),
    row("a process exits with a graph less",
        "A.ar sync [ A.ar ] 3{ launch sync } A.s1 sync launch; A.ar sync [ A.ar ] 3{ launch sync } A.r0 sync exit",
        GONE),
    row("a process dies before the second communicator",
        "A.ar sync A.s1 sync B.init; A.ar sync A.r0 A.r2 sync kill B.init; A.ar sync A.s1 sync B.init",
        GONE),
    row("a process dies inside an operation",
        "A.ar sync A.s1 sync A.ar:100000; A.ar sync A.r0 A.r2 sync A.ar:100000 kill; \
         A.ar sync A.s1 sync A.ar:100000",
        Says { line: "HANG: the process of rank 1 ended inside ncclAllReduce #2 of world (3); ranks 0, 2", ..GONE }),
    row("a stopped process",
        "2{ A.ar sync } A.s1 sync A.ar; 2{ A.ar sync } A.r0 A.r2 sync stop; 2{ A.ar sync } A.s1 sync A.ar",
        GONE).live(said("hang", "stopped", "certain", &[1], "")),
];

#[rustfmt::skip]
const MAKING: &[Row] = &[
    row("one rank never comes to the first communicator", "A.init; A.init; sleep A.init",
        said("hang", "never-came", "certain", &[2],
            "HANG: rank 2 never reached ncclCommInitRank; ranks 0-1 waited for up to ")),
    row("one rank never comes to the first communicator, which does not block",
        "A.init/nb A.ar; A.init/nb A.ar; sleep A.init/nb",
        said("hang", "never-came", "likely", &[2],
            "HANG: rank 2 never came: ranks 0-1 asked for a communicator ")),
    row("communicators of two ranks that are made in a circle",
        "D.init/nb D.ar A.init A.ar C.init; D.init/nb D.ar B.init B.ar A.init; D.init/nb D.ar C.init C.ar B.init",
        said("hang", "making", "cannot-tell-whom", &[0, 1, 2], "HANG: ranks 0-2 were in ncclCommInitRank for "))
        .live(said("waiting", "", "", &[], " in ncclCommInitRank for ")).lasts(3),
    row("a communicator is destroyed before a graph that uses it",
        "A.ar sync [ A.ar ] launch sync A.destroy; A.ar sync [ A.ar ] launch sync A.destroy",
        said("hang", "ending", "cannot-tell-whom", &[0, 1], "HANG: ranks 0-1 were in ncclCommDestroy for ")),
];

/// An archive does not state whether processes were killed.
const QUIET_ARCHIVE: Says = said("unknown", "", "", &[], "CANNOT TELL: NCCL had reported nothing for ");

#[rustfmt::skip]
const QUIET: &[Row] = &[
    row("all are busy elsewhere", "A.ar sync sleep; A.ar sync sleep",
        said("quiet", "", "", &[], "QUIET: NCCL had reported nothing for ")).archive(QUIET_ARCHIVE),
    row("one rank is busy elsewhere while the others end their communicator",
        "A.ar sync; A.ar sync; A.ar sync sleep",
        said("quiet", "", "", &[], "QUIET: NCCL had reported nothing for ")).archive(QUIET_ARCHIVE),
];

/// Those that end.
#[rustfmt::skip]
const PAST: &[Row] = &[
    row("one of two ranks calls another data type",
        "A.ar sync A.ar sync A.ar sync; A.ar sync A.ar/i32 sync A.ar sync",
        said("mismatch", "mismatch", "cannot-tell-whom", &[0, 1],
            "MISMATCH: the ranks of world (2) gave collective 2 different data types: ")),
    row("one of three ranks averages instead of summing up",
        "3{ A.ar sync }; A.ar sync A.ar/avg sync A.ar sync; 3{ A.ar sync }",
        said("mismatch", "mismatch", "certain", &[1],
            "MISMATCH: the ranks of world (3) gave collective 2 different reduction operations: rank 1 differs")),
    row("one of three ranks uses another operator",
        "3{ A.ar/i32 sync }; A.ar/i32 sync A.ar/max/i32 sync A.ar/i32 sync; 3{ A.ar/i32 sync }",
        said("mismatch", "mismatch", "certain", &[1],
            "MISMATCH: the ranks of world (3) gave collective 2 different reduction operations: rank 1 differs")),
    row("one rank calls eight times the count",
        "A.ar sync A.ar:40000 sync A.ar sync; A.ar sync A.ar:40000 sync A.ar sync; \
         A.ar sync A.ar:320000 sync A.ar sync",
        said("mismatch", "mismatch", "certain", &[2],
            "MISMATCH: the ranks of world (3) gave collective 2 different counts: rank 2 differs")),
    row("all abort and go on with another communicator",
        "A.ar sync A.ar wait:3 A.abort B.init 5{ B.ar sync }; A.ar sync wait:3 A.abort B.init 5{ B.ar sync }; \
         A.ar sync A.ar wait:3 A.abort B.init 5{ B.ar sync }",
        said("past-hang", "not-called", "certain", &[1],
            "PAST HANG: rank 1 had not called ncclAllReduce #2 of ")),
    row("one rank does not come, and the others go on without it",
        "A.init/nb wait:3 A.abort B.init 3{ B.ar sync }; A.init/nb wait:3 A.abort B.init 3{ B.ar sync }; \
         wait:5 exit A.init/nb",
        said("past-hang", "never-came", "likely", &[2],
            "PAST HANG: rank 2 never came: a communicator was not made ")),
    row("messages that end only because NCCL buffers them",
        "A.ar ( A.s1 A.r2 ) sync 3{ A.s1 A.r2 sync }; A.ar ( A.s2 A.r0 ) sync 3{ A.s2 A.r0 sync }; \
         A.ar ( A.s0 A.r1 ) sync 3{ A.s0 A.r1 sync }",
        said("unsafe", "deadlock", "certain", &[0, 1, 2],
            "UNSAFE: ranks 0-2 may wait for each other forever: each sends before it receives")),
    row("a message that is never received",
        "A.ar ( A.s1 A.r1 ) sync A.s1 A.s1 A.ar sync; A.ar ( A.s0 A.r0 ) sync A.r0 A.ar sync",
        said("unsafe", "not-called", "cannot-tell-whom", &[0, 1],
            "UNSAFE: rank 1 received 2 of the 3 messages that rank 0 sent to it in world (2)")),
    row("two communicators in two orders, on streams of their own",
        "A.ar B.ar sync 3{ A.ar@1 B.ar@2 sync }; A.ar B.ar sync 3{ B.ar@2 A.ar@1 sync }",
        said("unsafe", "deadlock", "certain", &[0, 1],
            "UNSAFE: ranks 0-1 may wait for each other forever: they use communicators in different orders")),
];

/// The truth of jobs that are well.
const WELL: Says = said("nothing", "", "", &[], "No hang: ");

#[rustfmt::skip]
const HEALTHY: &[Row] = &[
    row("data parallel with messages in pairs",
        "A.ar:9 4{ A.ar:5000 B.s1 B.r1 A.ag:500 A.rs:500 3{ B.ar:100 } sync }; \
         A.ar:9 4{ A.ar:5000 B.r0 B.s0 A.ag:500 A.rs:500 3{ B.ar:100 } sync }; \
         A.ar:9 4{ A.ar:5000 C.s1 C.r1 A.ag:500 A.rs:500 } sync; \
         A.ar:9 4{ A.ar:5000 C.r0 C.s0 A.ag:500 A.rs:500 } sync",
        WELL),
    row("nothing but messages in a ring",
        "6{ ( A.s1:100000 A.r2:100000 ) sync }; 6{ ( A.s2:100000 A.r0:100000 ) sync }; \
         6{ ( A.s0:100000 A.r1:100000 ) sync }",
        WELL),
    row("three communicators on three streams, and groups",
        "3{ A.ar@1 B.ag@2 ( C.ar@3 C.ar:8@3 ) B.ar@2 sync ( A.ar@1 B.ar@2 ) }; \
         3{ A.ar@1 B.ag@2 ( C.ar@3 C.ar:8@3 ) B.ar@2 sync ( A.ar@1 B.ar@2 ) }",
        WELL),
    row("rows and columns",
        "4{ A.ar C.ar } sync; 4{ A.ar D.ar } sync; 4{ B.ar C.ar } sync; 4{ B.ar D.ar } sync",
        WELL),
    row("a pipeline, forward and backward on two streams",
        "A.ar sync 4{ B.s1:5000@1 } 4{ C.r1:5000@2 } sync A.ar sync; \
         A.ar sync 4{ B.r0:5000@1 B.s2:5000@1 } 4{ C.r2:5000@2 C.s0:5000@2 } sync A.ar sync; \
         A.ar sync 4{ B.r1:5000@1 } 4{ C.s1:5000@2 } sync A.ar sync",
        WELL),
    row("one slow rank", "8{ A.ar sync }; 8{ wait:0.15 A.ar sync }", WELL),
    row("one rank ends its communicator early", "3{ A.ar sync }; 3{ A.ar sync } wait:2.5", WELL),
    row("one protocol for all",
        "NCCL_PROTO=Simple 4{ A.ar:100000 sync }; NCCL_PROTO=Simple 4{ A.ar:100000 sync }",
        WELL),
    row("graphs between other operations",
        "A.ar A.bc sync [ A.ar A.ag ] 4{ launch sync A.bc sync }; \
         A.ar A.bc sync [ A.ar A.ag ] 4{ launch sync A.bc sync }",
        WELL),
    row("a communicator that does not block, and one split off",
        "A.init/nb A.ar A.split/B 4{ A.ar B.ag } sync B.destroy A.ar sync; \
         A.init/nb A.ar A.split/B 4{ A.ar B.ag } sync B.destroy A.ar sync",
        WELL),
    row("two threads a process",
        "4{ A.ar A.ag } sync; 4{ A.ar A.ag } sync; 4{ A.ar A.ag } sync; 4{ A.ar A.ag } sync",
        WELL).threads("2"),
];

/// As a launcher starts it.
fn arguments(row: &Row) -> [&'static str; 5] {
    ["--launcher", "--program", row.programs, "--threads", row.threads]
}

/// Recorded as `nccl-otf2 run` does it, with journals that stay.
fn variables<'a>(row: &Row, plugin: &'a Path) -> Vec<(&'a str, &'a str)> {
    let plugin = plugin.to_str().expect("a path");
    let more = [("NVTX_INJECTION64_PATH", plugin), ("NCCL_OTF2_KEEP_JOURNAL", "1")];
    more.into_iter().chain(row.variables.iter().copied()).collect()
}

/// Judges a job while it hangs and after it was killed. Returns what is not said as it has to be.
fn hangs(row: &Row) -> Option<Vec<String>> {
    let job = Hanging::start(row.release, &variables(row, &built::plugin()), &arguments(row))?;
    let is_right = |verdict: &Value| match row.live {
        Some(live) => live.is_said_in(verdict) && live.has_line(verdict),
        None => row.says.is_said_in(verdict),
    };
    let after = if row.says.kind == "quiet" { "2" } else { "1" };
    let _there = job.until(after, |report| is_right(&report["verdict"]));
    // Records are up to a second old when it is killed, and who was gone first has to have been gone for two seconds.
    let more_ms = if row.says.reason == "gone" { 4000 } else { 1500 };
    std::thread::sleep(Duration::from_secs(row.lasts) + Duration::from_millis(more_ms));
    Some(complaints(row, job.kill().scratch(), "1"))
}

/// Lets a job come to its end.
fn ends(row: &Row) -> Option<Vec<String>> {
    let scratch = Scratch::new();
    let mut job = scratch.nccl(row.release, &[&["--exact"], &arguments(row)[..]].concat())?;
    let _ended = run(job.envs(variables(row, &built::plugin()))).with_code(0);
    // Of a job that is well no wait counts, be it short.
    let after = if row.says.kind == "nothing" { "0" } else { "1" };
    Some(complaints(row, &scratch, after))
}

/// What the journals of a job that is over say, and the archive without them.
fn complaints(row: &Row, scratch: &Scratch, after: &str) -> Vec<String> {
    let of_journals = complaint(row, &row.says, "journals", &judged(scratch, after, "parts"));
    let _finalized = scratch.finalize();
    let expected = row.archive.unwrap_or(row.says);
    let of_archive = complaint(row, &expected, "archive", &judged(scratch, after, "traces.otf2"));
    let of_check = rules(row).and_then(|rules| {
        let report = scratch.archive().check();
        let found = report["rules"].as_object().expect("rules").keys();
        let found: Vec<&str> = found.map(String::as_str).filter(|rule| OF_CALLS.contains(rule)).collect();
        (found != rules || report["faults"] != 0).then(|| format!("{}: not {rules:?}: {report:#}", row.name))
    });
    of_journals.into_iter().chain(of_archive).chain(of_check).collect()
}

/// The rules of `check` on the calls of programs.
const OF_CALLS: [&str; 4] = ["C21", "C22", "C23", "C24"];

/// The rules that a job breaks.
fn rules(row: &Row) -> Option<&'static [&'static str]> {
    let Says { kind, reason, line, .. } = row.says;
    Some(match (kind, reason) {
        ("nothing", _) => &[],
        ("unsafe", "deadlock") => &["C24"],
        ("unsafe", _) => &["C23"],
        ("mismatch", _) if line.contains("different reduction operations") => &["C21"],
        ("hang", "mismatch") if line.contains("different algorithms") => &["C22"],
        _ => return None,
    })
}

fn judged(scratch: &Scratch, after: &str, path: &str) -> FinishedProcess {
    run(scratch.tool(&["hang", "--json", "--after", after]).arg(scratch.out().join(path)))
}

fn complaint(row: &Row, expected: &Says, source: &str, ended: &FinishedProcess) -> Option<String> {
    let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let verdict = &report["verdict"];
    let is_right = expected.is_said_in(verdict) && expected.has_line(verdict) && report["source"] == source;
    let code = match expected.kind {
        "hang" | "mismatch" | "quiet" => 1,
        "unknown" => 2,
        _ => 0,
    };
    let is_right = is_right && ended.status.code() == Some(code);
    (!is_right).then(|| match verdict {
        Value::Null => format!("{}, {source}: {ended}", row.name),
        verdict => format!("{}, {source}: not {expected:#?}: {verdict:#}", row.name),
    })
}

/// Jobs that run at the same time: most of them sleep most of the time.
const AT_ONCE: usize = 8;

#[track_caller]
fn check(rows: impl IntoIterator<Item = Row>, judge: impl Fn(&Row) -> Option<Vec<String>> + Sync) {
    let rows = rows.into_iter().filter(|row| tested([row.release], |release| release).count() == 1);
    let rows: Vec<Row> = rows.collect();
    let (next, complaints) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
            // None where NCCL is not there.
            let Some(found) = judge(row) else { return };
            complaints.lock().extend(found);
        }
    };
    std::thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(work))));
    let complaints = complaints.into_inner();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn jobs_that_hang() {
    check([ORDERS, DIFFERENCES, ABSENT, LOST, MAKING, QUIET].into_iter().flatten().copied(), hangs);
}

#[test]
fn jobs_that_end_although_something_is_wrong() {
    check(PAST.iter().copied(), ends);
}

#[test]
fn jobs_that_are_well() {
    let levels: [&[(&str, &str)]; 3] = [&[], LIGHT, FULL];
    let releases = [RELEASE, "2.28.9", "2.27.7"].into_iter();
    let ways = releases.flat_map(|release| levels.into_iter().map(move |level| (release, level)));
    check(ways.flat_map(|(release, level)| HEALTHY.iter().map(move |row| row.on_release(release).with(level))), ends);
}
