//! Ways to hang. Each is a script for each rank of three, played to the plugin; a rank that waits sleeps in what it
//! has not ended.

pub(super) struct Way {
    pub(super) name: &'static str,
    pub(super) scripts: [&'static str; 3],
    /// Who may be named: of a deadlock any of those in it.
    pub(super) ranks: &'static [u64],
    /// What its first suspect did: while it hangs, after it was killed, and by the archive alone.
    pub(super) live: &'static str,
    pub(super) killed: &'static str,
    pub(super) archived: &'static str,
}

/// The same reason whenever it is looked for.
const fn always(name: &'static str, scripts: [&'static str; 3], reason: &'static str) -> Way {
    Way { name, scripts, ranks: &[2], live: reason, killed: reason, archived: reason }
}

const DONE_AND_WAITS: &str = "world\ndone 0\nwaits 1\nsleep";
const WAITS_FIRST: &str = "world\nwaits 0\nsleep";

pub(super) const WAYS: [Way; 15] = [
    always("skips the last", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nother 0\nsleep"], "not-called"),
    always("sleeps outside of NCCL", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nsleep"], "not-called"),
    always("calls another function", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nbroadcast 0\nsleep"], "mismatch"),
    always("calls with another count", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nlonger 1\nsleep"], "mismatch"),
    always("crashed", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nkill 9"], "gone"),
    Way {
        live: "stopped",
        // It reads no clock meanwhile: its recording ends before those of the others, as if it had been killed then.
        ..always("is stopped", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nkill 19"], "gone")
    },
    Way {
        live: "stopped",
        ..always(
            "is stopped in the operation",
            [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nwaits 1\nkill 19"],
            "gone",
        )
    },
    Way {
        live: "stopped",
        ..always(
            "is stopped in the operation, and others have called the next ones",
            [
                "world\ndone 0\nwaits 1\nwaits 2\nwaits 3\nsleep",
                "world\ndone 0\nwaits 1\nwaits 2\nsleep",
                "world\ndone 0\nwaits 1\nkill 19",
            ],
            "gone",
        )
    },
    Way {
        ranks: &[0, 1],
        ..always(
            "two communicators in different orders",
            ["world\nsecond\nwaits 0\nsleep", "world\nsecond\ncrossed 0\nsleep", "sleep"],
            "deadlock",
        )
    },
    always(
        "receives what is not sent",
        ["world\ndone 0\nreceives 2\nsleep", "world\ndone 0\nsleep", "world\ndone 0\nsleep"],
        "not-called",
    ),
    always("ends no group", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\ngroup\nsleep"], "not-called"),
    always("never came", [WAITS_FIRST, WAITS_FIRST, "sleep"], "never-came"),
    Way {
        // Rank 1 of the communicator of ranks 1 and 2.
        ranks: &[1],
        ..always(
            "in a smaller communicator",
            ["world\ndone 0\nsleep", "world\npair 0\ndone 0\npair_waits 0\nsleep", "world\npair 1\ndone 0\nsleep"],
            "not-called",
        )
    },
    Way {
        // Rank 1 of the communicator of ranks 1 and 2: rank 0 waits for both, and rank 1 for it.
        ranks: &[1],
        ..always(
            "at the end of a chain",
            [DONE_AND_WAITS, "world\npair 0\ndone 0\npair_waits 0\nsleep", "world\npair 1\ndone 0\nsleep"],
            "not-called",
        )
    },
    always("ended early", [DONE_AND_WAITS, DONE_AND_WAITS, "world\ndone 0\nfinalize c\nexit 0"], "ended"),
];

pub(super) fn script(rank: usize, words: &str) -> String {
    let mut script = String::new();
    for line in words.lines() {
        let (word, argument) = line.split_once(' ').unwrap_or((line, ""));
        let all_reduce = |context, ends| collective(rank, context, argument, "AllReduce", 100, ends);
        script += &match word {
            "world" => format!("init c id=7 name=world nodes=1 ranks=3 rank={rank}\n"),
            "second" => format!("init d id=8 name=second nodes=1 ranks=2 rank={rank}\n"),
            "pair" => format!("init d id=9 name=pair nodes=1 ranks=2 rank={argument}\n"),
            "done" => all_reduce("c", true),
            "waits" => all_reduce("c", false),
            // Nothing shows when it ends.
            "called" => all_reduce("c", false).split("start op").next().unwrap_or_default().to_owned(),
            "crossed" => all_reduce("d", false),
            "pair_waits" => collective(0, "d", argument, "AllReduce", 100, false),
            "longer" => collective(rank, "c", argument, "AllReduce", 200, false),
            "broadcast" => collective(rank, "c", argument, "Broadcast", 100, false),
            // On a communicator of its own, where nobody waits.
            "other" => format!(
                "init e id=10 name=other nodes=1 ranks=1 rank=0\n{}",
                collective(0, "e", "0", "AllReduce", 5, true)
            ),
            "receives" => format!(
                "start ga GroupApi ctx=c depth=1\nstate ga GroupStartApiStop\n\
                 start ra P2pApi ctx=c parent=ga func=Recv count=9 datatype=ncclInt8\nstop ra\n\
                 state ga GroupEndApiStart\n\
                 start ro P2p ctx=c parent=ra rank={rank} func=Recv count=9 datatype=ncclInt8 peer={argument} channels=1\n\
                 stop ro\nstop ga\n\
                 start rp ProxyOp ctx=c parent=ro rank={rank} channel=0 peer={argument} steps=1 is_send=0\n\
                 state rp ProxyOpInProgress\n"
            ),
            "group_end" => {
                "start gg GroupApi ctx=c depth=1\nstate gg GroupStartApiStop\nstate gg GroupEndApiStart\n".to_owned()
            }
            "group" => "start gg GroupApi ctx=c depth=2\nstate gg GroupStartApiStop\n".to_owned(),
            "sleep" if argument.is_empty() => "sleep 600s\n".to_owned(),
            _ => format!("{line}\n"),
        };
    }
    script
}

/// A collective whose network transfer ended, or has not.
fn collective(rank: usize, context: &str, sequence: &str, func: &str, count: u32, ends: bool) -> String {
    let peer = (rank + 1) % 3;
    let arguments = format!("func={func} count={count} datatype=ncclFloat32 root=0");
    let end = if ends { "stop op\n" } else { "" };
    format!(
        "start ga GroupApi ctx={context} depth=1\nstate ga GroupStartApiStop\n\
         start ca CollApi ctx={context} parent=ga {arguments}\nstop ca\n\
         state ga GroupEndApiStart\n\
         start kl KernelLaunch ctx={context} parent=ga\nstop kl\n\
         start co Coll ctx={context} parent=ca rank={rank} {arguments} sequence={sequence} channels=1 warps=8\n\
         stop co\nstop ga\n\
         start op ProxyOp ctx={context} parent=co rank={rank} channel=0 peer={peer} steps=1 is_send=1\n\
         state op ProxyOpInProgress\n{end}"
    )
}
