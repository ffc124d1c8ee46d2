//! CUDA graphs: what is captured, and what CUDA's own thread reports later.

use whole_plugin::archive::Archive;
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

/// The names of the threads without their numbers, and of each launch its stream and whether it was captured.
fn seen(archive: &Archive) -> (Vec<String>, Vec<(Option<u64>, bool)>) {
    let definitions = archive.reader().definitions().expect("definitions");
    let names = definitions.locations.values().filter_map(|location| definitions.string(location.name));
    let mut threads: Vec<String> = Vec::new();
    for (what, number) in names.filter_map(|name| name.rsplit_once(" thread ")) {
        assert!(number.parse::<u32>().is_ok_and(|number| number > 0), "{what} {number}");
        threads.push(what.to_owned());
    }
    threads.sort();
    let regions = archive.regions().into_iter().filter(|region| region.name == "NCCL launch");
    let launches =
        regions.map(|region| (region.number("nccl.stream"), region.number("nccl.graph_captured") == Some(1)));
    let mut launches: Vec<(Option<u64>, bool)> = launches.collect();
    launches.sort_unstable();
    (threads, launches)
}

#[test]
fn a_captured_launch_says_so_and_the_replay_is_on_a_thread_of_cuda() {
    let scratch = Scratch::new();
    let archive = archive_under(Some(22_809), &scratch, 5, SCRIPT);
    let (threads, launches) = seen(&archive);
    assert_eq!(threads, ["API", "API", "CUDA callback"]);
    assert_eq!(launches, [(Some(0x70), true), (Some(0x80), false), (Some(0x80), false)]);
}

/// Before 2.28 neither calls nor launches are reported: a thread that only reports operations can be the program's.
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
    assert_eq!(seen(&archive).0, ["API", "API"]);
}
