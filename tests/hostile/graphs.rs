//! CUDA graphs: what is captured, and what CUDA's own thread reports of it later.

use otf2::{AttributeValue, EventKind, LocationRef};
use std::ops::ControlFlow;
use whole_plugin::scratch::Scratch;

use crate::drive::archive_under;

/// A captured call and one that is not, each with its launch; a replay on a thread that never calls NCCL.
const SCRIPT: &str = "
    init c id=1 ranks=2 rank=0
    start g GroupApi depth=1 graph_captured=1
    start a CollApi parent=g func=AllReduce count=1 datatype=ncclFloat32 graph_captured=1 stream=0x70
    stop a
    start l KernelLaunch parent=g stream=0x70
    stop l
    stop g
    start h GroupApi depth=1
    start b CollApi parent=h func=AllReduce count=1 datatype=ncclFloat32 stream=0x80
    stop b
    start m KernelLaunch parent=h stream=0x80
    start y Coll parent=b func=AllReduce count=1 datatype=ncclFloat32
    stop y
    stop m
    stop h
    thread cuda {
    start x Coll parent=a func=AllReduce count=1 datatype=ncclFloat32
    stop x
    }
    join
    # A thread of the program's own, which launches.
    thread worker {
    start i GroupApi depth=1
    start n KernelLaunch parent=i stream=0x80
    start z Coll parent=b func=AllReduce count=1 datatype=ncclFloat32
    stop z
    stop n
    stop i
    }
    join
    finalize c
";

/// The names of the threads' rows by what is in front of the number, and `nccl.graph_captured` by stream of the launch.
fn seen(archive: &otf2::Archive) -> (Vec<String>, Vec<(u64, bool)>) {
    let definitions = archive.definitions().expect("definitions");
    let text = |string| definitions.string(string).expect("defined").to_owned();
    let mut threads: Vec<String> = Vec::new();
    for location in definitions.locations.values() {
        let name = text(location.name);
        if let Some((what, number)) = name.rsplit_once(" thread ") {
            assert!(number.parse::<u32>().is_ok_and(|number| number > 0), "{name}");
            threads.push(what.to_owned());
        }
    }
    threads.sort();
    let locations: Vec<LocationRef> = definitions.locations.keys().copied().collect();
    let mut launches = Vec::new();
    archive
        .for_each_event(&locations, |_, event| {
            let EventKind::Enter(region) = event.kind else {
                return ControlFlow::Continue(());
            };
            if text(definitions.regions[&region].name) != "ncclKernelLaunch" {
                return ControlFlow::Continue(());
            }
            let (mut stream, mut captured) = (0, false);
            for (attribute, value) in &event.attributes {
                match (text(definitions.attributes[attribute].name).as_str(), value) {
                    ("nccl.stream", AttributeValue::U64(number)) => stream = *number,
                    ("nccl.graph_captured", AttributeValue::U8(flag)) => captured = *flag == 1,
                    _ => {}
                }
            }
            launches.push((stream, captured));
            ControlFlow::Continue(())
        })
        .expect("events");
    launches.sort_unstable();
    (threads, launches)
}

#[test]
fn a_captured_launch_says_so_and_the_replay_is_on_a_thread_of_cuda() {
    let scratch = Scratch::new();
    let archive = archive_under(Some(22_809), &scratch, 5, SCRIPT);
    let archive = otf2::Archive::open(archive.anchor()).expect("opens");
    let (threads, launches) = seen(&archive);
    assert_eq!(threads, ["API", "API", "CUDA callback"]);
    assert_eq!(launches, [(0x70, true), (0x80, false), (0x80, false)]);
}

/// Before 2.28 nobody tells calls and launches: a thread that only reports operations can be the program's.
#[test]
fn without_calls_no_thread_is_called_cudas() {
    let scratch = Scratch::new();
    let script = "
        init c id=1 ranks=2 rank=0
        thread worker {
        start x Coll func=AllReduce count=1 datatype=ncclFloat32
        stop x
        }
        join
        finalize c
    ";
    let archive = archive_under(None, &scratch, 4, script);
    let archive = otf2::Archive::open(archive.anchor()).expect("opens");
    assert_eq!(seen(&archive).0, ["API", "API"]);
}
