//! Ends that NCCL does not report, each kind: the archive marks them at the operation itself.
//!
//! A region whose end was not seen lasts to the last time seen and has `nccl.unfinished`; one that something else ended
//! has `nccl.closed`; `nccl.timing` names what an operation's interval was made of.

use whole_plugin::archive::Archive;
use whole_plugin::process::run;
use whole_plugin::regions::Region;
use whole_plugin::scratch::Scratch;

/// How an end is missing, the callbacks, and what becomes of it: one region a line, in the order of their names, those
/// of `init` and `finalize` left out.
struct Case {
    what: &'static str,
    script: &'static str,
    regions: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        what: "all ends are reported",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            state p ProxyOpInProgress_v4
            start s ProxyStep parent=p step=0
            state s ProxyStepSendWait bytes=64
            stop s
            stop p
            stop x",
        regions: &["send step", "NCCL AllReduce proxy", "NCCL AllReduce enqueue", "netSend"],
    },
    Case {
        what: "a collective has no stop, and no children",
        script: "start x Coll func=AllReduce count=1 datatype=ncclFloat32",
        regions: &["NCCL AllReduce proxy unfinished", "NCCL AllReduce enqueue unfinished"],
    },
    Case {
        what: "a collective has a stop, and no children",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            stop x",
        regions: &["NCCL AllReduce enqueue", "NCCL AllReduce enqueue"],
    },
    Case {
        what: "a collective has no stop, its children have",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            stop p",
        regions: &["NCCL AllReduce proxy", "NCCL AllReduce enqueue unfinished", "netSend"],
    },
    Case {
        what: "one of two transfers has no stop",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            start q ProxyOp parent=x channel=0 peer=1 steps=1 is_send=0
            state q ProxyOpInProgress_v4
            stop p
            stop x",
        regions: &["NCCL AllReduce proxy unfinished", "NCCL AllReduce enqueue", "netRecv unfinished", "netSend"],
    },
    Case {
        what: "the connection of a transfer is one that NCCL never reports on",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            stop x",
        regions: &["NCCL AllReduce enqueue", "NCCL AllReduce enqueue", "netSend closed"],
    },
    Case {
        what: "a step has no stop, its transfer has",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=0
            start s ProxyStep parent=p step=0
            state s ProxyStepRecvFlushWait bytes=64
            stop p",
        regions: &["receive step closed", "netRecv"],
    },
    Case {
        what: "the slot of a step is used again",
        script: "
            start p ProxyOp channel=0 peer=1 steps=9 is_send=0
            start s ProxyStep parent=p step=0
            start t ProxyStep parent=p step=8
            stop t
            stop p",
        regions: &["receive step", "receive step closed", "netRecv"],
    },
    Case {
        what: "neither step nor transfer have a stop",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=1
            start s ProxyStep parent=p step=0
            state s ProxyStepSendWait bytes=64",
        regions: &["send step unfinished", "netSend unfinished"],
    },
    Case {
        what: "a network plugin's part has no stop",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=1
            start s ProxyStep parent=p step=0
            start n NetPlugin parent=s net_socket=3,1,64
            stop s
            stop p",
        regions: &["send step", "netSend", "socketSend unfinished"],
    },
    Case {
        what: "a kernel channel has no stop",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start k KernelCh parent=x channel=0 gpu_ns=1000
            stop x",
        regions: &["NCCL AllReduce proxy unfinished", "NCCL AllReduce enqueue", "kernel channel unfinished"],
    },
    Case {
        what: "a send has no stop",
        script: "start x P2p func=Send count=1 datatype=ncclFloat32 peer=1",
        regions: &["NCCL Send proxy unfinished", "NCCL Send enqueue unfinished"],
    },
    Case {
        what: "a copy-engine collective has no stop, nor have its parts",
        script: "
            start x CeColl func=AllGather count=1 datatype=ncclFloat32
            start y CeSync parent=x
            start z CeBatch parent=x",
        regions: &[
            "NCCL CE batch unfinished",
            "NCCL CE sync unfinished",
            "NCCL AllGather (CE) enqueue unfinished",
            "NCCL AllGather (CE) enqueue unfinished",
        ],
    },
    Case {
        what: "calls, launch and plan have no stop",
        script: "
            start g GroupApi depth=1
            state g GroupStartApiStop
            start a CollApi parent=g func=AllReduce count=1 datatype=ncclFloat32
            start b P2pApi parent=g func=Send count=1 datatype=ncclFloat32
            start l KernelLaunch parent=g
            start p Group",
        regions: &[
            "ncclAllReduce unfinished",
            "NCCL group unfinished",
            "ncclGroupStart",
            "NCCL launch unfinished",
            "NCCL launch plan unfinished",
            "ncclSend unfinished",
        ],
    },
    Case {
        what: "the last call of an all-to-all has no stop, nor have its operations",
        script: "
            start g GroupApi depth=1
            start a P2pApi parent=g func=Send count=1 datatype=ncclFloat32
            stop a
            start b P2pApi parent=g func=Recv count=1 datatype=ncclFloat32
            stop b
            start c1 P2pApi parent=g func=Send count=1 datatype=ncclFloat32
            stop c1
            start d P2pApi parent=g func=Recv count=1 datatype=ncclFloat32
            start x P2p parent=a func=Send count=1 datatype=ncclFloat32 peer=1
            start y P2p parent=b func=Recv count=1 datatype=ncclFloat32 peer=1",
        regions: &[
            "NCCL AlltoAll proxy unfinished",
            "ncclAlltoAll unfinished",
            "ncclRecv",
            "NCCL Recv proxy unfinished",
            "ncclRecv unfinished",
            "NCCL Recv enqueue unfinished",
            "ncclSend",
            "ncclSend",
            "NCCL Send proxy unfinished",
            "NCCL Send enqueue unfinished",
        ],
    },
    Case {
        what: "what a proxy thread does has no stop: it goes on to another, and to none",
        script: "
            start a ProxyCtrl
            state a ProxyCtrlAppend
            start b ProxyCtrl
            state b ProxyCtrlSleep",
        regions: &["ProxyAppend closed", "ProxySleep unfinished"],
    },
];

/// The regions of an archive with the marks of their ends. An unfinished one lasts to the last time of all.
fn regions(archive: &Archive) -> Vec<String> {
    let regions = archive.regions();
    let last = regions.iter().map(|region| region.end_ns).max();
    let is_shown = |region: &&Region| !region.name.starts_with("ncclComm") && region.name != "NCCL network";
    let regions = regions.iter().filter(is_shown);
    let line = |region: &Region| {
        let mut line = region.name.clone();
        if let Some(timing) = region.text("nccl.timing") {
            line = format!("{line} {timing}");
        }
        for mark in ["unfinished", "closed"] {
            if region.text(&format!("nccl.{mark}")) == Some("1") {
                line = format!("{line} {mark}");
            }
        }
        if line.ends_with(" unfinished") {
            assert_eq!(Some(region.end_ns), last, "{line}");
        }
        line
    };
    let mut lines: Vec<String> = regions.map(line).collect();
    lines.sort();
    lines
}

/// What becomes of a script whose process ends so.
fn regions_after(case: &Case, end: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let script = format!("init c id=1 ranks=2 rank=0\n{}\n{end}\n", case.script);
    let _ended = run(scratch.script(&script).args(["--table", "6"]));
    let _finalized = scratch.finalize().with_code(0);
    let _report = scratch.archive().check();
    regions(&scratch.archive())
}

#[test]
fn an_end_that_was_not_seen_is_marked() {
    for case in CASES {
        let mut expected: Vec<&str> = case.regions.to_vec();
        expected.sort_unstable();
        for end in ["finalize c", "exit 0", "kill 9"] {
            let regions = regions_after(case, end);
            assert_eq!(regions, expected, "{}, {end}", case.what);
        }
    }
}
