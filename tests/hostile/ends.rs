//! Ends that nobody told, each way that one can be missing: what is written says so, in the archive, at the operation
//! itself.
//!
//! A region whose end was not seen goes on to the last time seen and has `nccl.unfinished`; one whose end something
//! else tells has `nccl.closed`; what an operation's interval was made of says `nccl.timing`.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use otf2::{AttributeValue, Definitions, Event, EventKind, LocationRef, StringRef};
use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// How an end is missing, the callbacks, and what becomes of it: one region a line, in the order of their names, those
/// of `init` and `finalize` left out.
struct Case {
    way: &'static str,
    script: &'static str,
    regions: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        way: "all ends are told",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            state p ProxyOpInProgress_v4
            start s ProxyStep parent=p step=0
            state s ProxyStepSendWait bytes=64
            stop s
            stop p
            stop x",
        regions: &["SendGPUWait", "SendWait", "ncclAllReduce proxy", "ncclAllReduce enqueue", "netSend", "queued"],
    },
    Case {
        way: "a collective has no stop, and no children",
        script: "start x Coll func=AllReduce count=1 datatype=ncclFloat32",
        regions: &["ncclAllReduce proxy unfinished", "ncclAllReduce enqueue unfinished"],
    },
    Case {
        way: "a collective has a stop, and no children",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            stop x",
        regions: &["ncclAllReduce enqueue", "ncclAllReduce enqueue"],
    },
    Case {
        way: "a collective has no stop, its children have",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            stop p",
        regions: &["ncclAllReduce proxy", "ncclAllReduce enqueue unfinished", "netSend"],
    },
    Case {
        way: "one of two transfers has no stop",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            start q ProxyOp parent=x channel=0 peer=1 steps=1 is_send=0
            state q ProxyOpInProgress_v4
            stop p
            stop x",
        regions: &[
            "ncclAllReduce proxy unfinished",
            "ncclAllReduce enqueue",
            "netRecv unfinished",
            "netSend",
            "queued",
        ],
    },
    Case {
        way: "the connection of a transfer is one that NCCL never reports on",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start p ProxyOp parent=x channel=0 peer=1 steps=1 is_send=1
            stop x",
        regions: &["ncclAllReduce enqueue", "ncclAllReduce enqueue", "netSend closed"],
    },
    Case {
        way: "a step has no stop, its transfer has",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=0
            start s ProxyStep parent=p step=0
            state s ProxyStepRecvFlushWait bytes=64
            stop p",
        regions: &["RecvFlushWait closed", "RecvWait", "netRecv"],
    },
    Case {
        way: "the slot of a step is used again",
        script: "
            start p ProxyOp channel=0 peer=1 steps=9 is_send=0
            start s ProxyStep parent=p step=0
            start t ProxyStep parent=p step=8
            stop t
            stop p",
        regions: &["ProxyStep", "ProxyStep closed", "netRecv"],
    },
    Case {
        way: "neither step nor transfer have a stop",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=1
            start s ProxyStep parent=p step=0",
        regions: &["ProxyStep unfinished", "netSend unfinished"],
    },
    Case {
        way: "a network plugin's part has no stop",
        script: "
            start p ProxyOp channel=0 peer=1 steps=1 is_send=1
            start s ProxyStep parent=p step=0
            start n NetPlugin parent=s net_socket=3,1,64
            stop s
            stop p",
        regions: &["ProxyStep", "netSend", "socketSend unfinished"],
    },
    Case {
        way: "a kernel channel has no stop",
        script: "
            start x Coll func=AllReduce count=1 datatype=ncclFloat32
            start k KernelCh parent=x channel=0 gpu_ns=1000
            stop x",
        regions: &["ncclAllReduce proxy unfinished", "ncclAllReduce enqueue", "ncclKernelChannel unfinished"],
    },
    Case {
        way: "a send has no stop",
        script: "start x P2p func=Send count=1 datatype=ncclFloat32 peer=1",
        regions: &["ncclSend proxy unfinished", "ncclSend enqueue unfinished"],
    },
    Case {
        way: "a copy-engine collective has no stop, nor have its parts",
        script: "
            start x CeColl func=AllGather count=1 datatype=ncclFloat32
            start y CeSync parent=x
            start z CeBatch parent=x",
        regions: &[
            "CeBatch unfinished",
            "CeSync unfinished",
            "ncclAllGather (CE) enqueue unfinished",
            "ncclAllGather (CE) enqueue unfinished",
        ],
    },
    Case {
        way: "calls, launch and plan have no stop",
        script: "
            start g GroupApi depth=1
            state g GroupStartApiStop
            start a CollApi parent=g func=AllReduce count=1 datatype=ncclFloat32
            start b P2pApi parent=g func=Send count=1 datatype=ncclFloat32
            start l KernelLaunch parent=g
            start p Group",
        regions: &[
            "ncclAllReduce unfinished",
            "ncclGroup unfinished",
            "ncclGroupStart",
            "ncclKernelLaunch unfinished",
            "ncclLaunchPlan unfinished",
            "ncclSend unfinished",
        ],
    },
    Case {
        way: "the last call of an all-to-all has no stop, nor have its operations",
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
            "ncclAlltoAll proxy unfinished",
            "ncclAlltoAll unfinished",
            "ncclGroup unfinished",
            "ncclRecv",
            "ncclRecv proxy unfinished",
            "ncclRecv unfinished",
            "ncclRecv enqueue unfinished",
            "ncclSend",
            "ncclSend",
            "ncclSend proxy unfinished",
            "ncclSend enqueue unfinished",
        ],
    },
    Case {
        way: "what a proxy thread does has no stop: it goes on to another, and to none",
        script: "
            start a ProxyCtrl
            state a ProxyCtrlAppend
            start b ProxyCtrl
            state b ProxyCtrlSleep",
        regions: &["ProxyAppend closed", "ProxySleep unfinished"],
    },
];

fn text(definitions: &Definitions, string: StringRef) -> &str {
    definitions.string(string).expect("defined")
}

/// An attribute's value as text.
fn attribute(definitions: &Definitions, event: &Event, name: &str) -> Option<String> {
    let mut attributes = event.attributes.iter();
    let found = attributes.find(|(attribute, _)| {
        let definition = &definitions.attributes[attribute];
        text(definitions, definition.name) == name
    });
    found.map(|(_, value)| match *value {
        AttributeValue::String(string) => text(definitions, string).to_owned(),
        AttributeValue::U8(number) => number.to_string(),
        other => panic!("{name}: {other:?}"),
    })
}

/// The regions of an archive with what is said of their ends. What is unfinished goes on to the last time of all.
fn regions(archive: &otf2::Archive) -> Vec<String> {
    let definitions = archive.definitions().expect("definitions");
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut events: BTreeMap<LocationRef, Vec<Event>> = BTreeMap::new();
    archive
        .for_each_event(&locations, |location, event| {
            events.entry(location).or_default().push(event);
            ControlFlow::Continue(())
        })
        .expect("events");
    let last = events.values().flatten().map(|event| event.time).max();
    let mut regions = Vec::new();
    for event in events.values() {
        let mut open = Vec::new();
        for event in event {
            match event.kind {
                EventKind::Enter(_) => open.push(event),
                EventKind::Leave(region) => {
                    let entered = open.pop().expect("entered");
                    let name = text(&definitions, definitions.regions[&region].name);
                    let mut line = name.to_owned();
                    if let Some(timing) = attribute(&definitions, entered, "nccl.timing") {
                        line = format!("{line} {timing}");
                    }
                    for mark in ["unfinished", "closed"] {
                        let value = attribute(&definitions, event, &format!("nccl.{mark}"));
                        if value.as_deref() == Some("1") {
                            line = format!("{line} {mark}");
                        }
                    }
                    if line.ends_with(" unfinished") {
                        assert_eq!(Some(event.time), last, "{line}");
                    }
                    if !name.starts_with("ncclComm") {
                        regions.push(line);
                    }
                }
                _ => {}
            }
        }
    }
    regions.sort();
    regions
}

/// What becomes of a script whose process ends so.
fn regions_after(case: &Case, end: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let script = format!("init c id=1 ranks=2 rank=0\n{}\n{end}\n", case.script);
    let mut command = scratch.script_with(&built::plugin(), &script);
    let ended = run(command.args(["--table", "6"]));
    let said = ended.to_string();
    let _finalized = scratch.finalize().with_code(0);
    let report = scratch.archive().check();
    assert_eq!(report["faults"], 0, "{}: {report}", case.way);
    let archive = otf2::Archive::open(scratch.archive().anchor());
    regions(&archive.unwrap_or_else(|error| panic!("{error}: {said}")))
}

#[test]
fn an_end_that_was_not_seen_is_marked() {
    for case in CASES {
        let mut expected: Vec<&str> = case.regions.to_vec();
        expected.sort_unstable();
        for end in ["finalize c", "exit 0", "kill 9"] {
            let regions = regions_after(case, end);
            assert_eq!(regions, expected, "{}, {end}", case.way);
        }
    }
}
