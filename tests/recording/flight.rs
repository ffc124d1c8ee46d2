//! `NCCL_OTF2_MODE=flight`: however long a job runs, only the end of its recording is kept, and what is kept is
//! understood without the rest.

use std::time::Duration;

use serde_json::Value;
use whole_plugin::archive::Archive;
use whole_plugin::process::{LIMIT, run, start};
use whole_plugin::scratch::Scratch;

/// Some thirty megabytes of records.
const LONG: &str = "
    init c id=0x1234 name=train ranks=1 rank=0
    start first CollApi ctx=c func=Broadcast count=1 datatype=ncclInt8 root=0
    thread idle {
      start held GroupApi ctx=c depth=1
      state held GroupEndApiStart
      start old CollApi ctx=c parent=held func=ReduceScatter count=3 datatype=ncclFloat16
      barrier begun 2
    }
    barrier begun 2
    repeat 100000 {
      start ga GroupApi ctx=c depth=1
      start ca CollApi ctx=c parent=ga func=AllReduce count=7 datatype=ncclFloat32 root=0 stream=0x77
      stop ca
      start co Coll ctx=c parent=ca rank=0 func=AllReduce count=7 datatype=ncclFloat32 channels=1 warps=8 algorithm=RING protocol=LL
      stop co
      stop ga
    }
    stop first
    sleep 20ms
    start last CollApi ctx=c func=AllGather count=2 datatype=ncclInt8
    stop last
";

/// Bytes of all files of journals.
fn bytes_on_disk(scratch: &Scratch) -> u64 {
    let parts = scratch.recording().into_iter();
    let files = parts.filter_map(|part| std::fs::read_dir(part.join("journal")).ok());
    let sizes = files.flatten().flatten();
    sizes.filter_map(|file| file.metadata().ok()).map(|data| data.len()).sum()
}

/// Runs the script as a flight recording that nobody finalizes, and gives the most bytes there ever were on disk.
fn fly(scratch: &Scratch, (variable, value): (&str, &str), script: &str) -> u64 {
    let mut command = scratch.script(script);
    command.env("NCCL_OTF2_MODE", "flight").env("NCCL_OTF2_FINALIZE", "offline").env(variable, value);
    let running = start(&mut command);
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| running.wait(LIMIT).with_code(0));
        let mut most = 0;
        while !ended.is_finished() {
            most = most.max(bytes_on_disk(scratch));
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ended = ended.join().expect("the script ran");
        most.max(bytes_on_disk(scratch))
    })
}

const SIZE: (&str, &str) = ("NCCL_OTF2_FLIGHT_SIZE", "8M");
const SECOND: (&str, &str) = ("NCCL_OTF2_FLIGHT_SECONDS", "1");

fn finalized(scratch: &Scratch) -> Archive {
    let _finalized = scratch.finalize().with_code(0);
    scratch.sound_archive()
}

fn hang(scratch: &Scratch) -> Value {
    let said = run(scratch.tool(&["hang", "--json"]).arg(scratch.out()));
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The first sequence of calls of the communicator of this name.
fn sequence<'a>(report: &'a Value, name: &str) -> &'a Value {
    let comms = report["communicators"].as_array().expect("a list");
    // In an archive, the size follows.
    let is_it = |said: &str| said.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(" ("));
    let comm = comms.iter().find(|comm| comm["name"].as_str().is_some_and(is_it));
    &comm.unwrap_or_else(|| panic!("no {name}: {report:#}"))["sequences"][0]
}

#[test]
fn the_end_is_kept_within_the_size_and_understood_without_the_rest() {
    let scratch = Scratch::new();
    let most = fly(&scratch, SIZE, LONG);
    // A thread that outruns the maintenance thread may put it off by some segments of the thirty.
    assert!((4 << 20..=16 << 20).contains(&most), "{most} bytes on disk");

    // Calls that are gone are not counted, and said to be gone.
    let report = hang(&scratch);
    let problems = report["processes"][0]["problems"].to_string();
    assert!(problems.contains("from its beginning not kept"), "{report:#}");
    assert_eq!(sequence(&report, "train")["from_beginning"], false, "{report:#}");
    let counted = sequence(&report, "train")["ranks"][0]["entered"].as_u64().expect("a number");
    assert!((1..100_000).contains(&counted), "{report:#}");

    let archive = finalized(&scratch);
    // 100 000 times three, and four more: counted, none lost.
    let seen: u64 = ["GROUPAPI", "COLLAPI", "COLL"].map(|kind| archive.count(&format!("{kind}::SEEN"))).iter().sum();
    let removed = archive.count("REMOVED");
    assert_eq!(seen + removed, 300_004, "{removed} not kept");
    assert!(removed > 100_000 && seen > 15_000, "{seen} seen");
    assert_eq!(archive.count("COLLAPI::LOST"), 0);
    assert_eq!(archive.count("STOPS_WITHOUT_START"), 0);
    // The stop of what began before the window.
    assert!(archive.count("STOPS_OF_REMOVED") >= 1);
    let properties = archive.properties();
    assert_eq!(properties["NCCL::FLIGHT::PROCESSES"], "1");
    assert!(properties["NCCL::FLIGHT::LIST"].contains(&format!("{removed} events were not kept")), "{properties:?}");
    understood(&archive);

    // Of what was removed before the archive was made, the number of kept calls is no position.
    assert_eq!(hang(&scratch)["source"], "journals", "the verdict that finalize kept");
    std::fs::remove_file(scratch.out().join("hang.json")).expect("it is kept");
    let report = hang(&scratch);
    assert_eq!(report["source"], "archive", "{report:#}");
    assert_eq!(sequence(&report, "train")["from_beginning"], false, "{report:#}");
}

/// What is kept has its communicator, its names and its threads.
fn understood(archive: &Archive) {
    assert_eq!(archive.count("UNINITIALISED"), 0, "the communicator is known");
    let definitions = archive.definitions();
    assert!(definitions.contains("\"train\""), "and its name");
    let events = archive.events();
    let all_reduces = archive.count("COLLAPI::WRITTEN") - 2;
    let count = |text: &str| {
        let entered = events.lines().filter(|line| line.starts_with("ENTER"));
        entered.filter(|line| line.contains(text)).count() as u64
    };
    assert_eq!(count("\"ncclAllReduce\""), all_reduces);
    assert_eq!(count("\"NCCL AllReduce\""), archive.count("COLL::WRITTEN"));
    assert_eq!(count("\"ncclAllGather\""), 1, "the last one");
    assert_eq!(count("\"ncclBroadcast\""), 0, "the first one is gone");
    // A thread that records little keeps its own: here the call that hangs.
    assert_eq!(count("\"ncclReduceScatter\""), 1);
    // Two threads and no more, though each segment names its own.
    let threads = definitions.lines().filter(|line| line.starts_with("LOCATION ") && line.contains("\"API thread "));
    assert_eq!(threads.count(), 2, "{definitions}");
    // Readers match collectives by their order, which is not there.
    assert!(!events.contains("MPI_COLLECTIVE_BEGIN"));
}

#[test]
fn records_go_when_their_time_is_over() {
    let scratch = Scratch::new();
    let script = format!(
        "{LONG}
         sleep 2500ms
         repeat 10 {{
         start z P2pApi ctx=c func=Send count=1
         stop z
         }}
         init late id=0x99 name=late ranks=1 rank=0
         repeat 3 {{
         start cl CollApi ctx=late func=AllReduce count=7 datatype=ncclFloat32
         stop cl
         }}"
    );
    let _most = fly(&scratch, SECOND, &script);
    // The segment in use stays, and nothing else.
    assert!(bytes_on_disk(&scratch) <= 4 << 20);
    // A communicator that began in what is kept is counted from its beginning.
    let report = hang(&scratch);
    let late = sequence(&report, "late");
    assert_eq!((&late["from_beginning"], &late["last_complete"]["position"]), (&true.into(), &3.into()), "{report:#}");
    assert_eq!(sequence(&report, "train")["from_beginning"], false, "{report:#}");
    let archive = finalized(&scratch);
    assert!(archive.count("REMOVED") > 250_000);
    assert_eq!(archive.count("P2PAPI::WRITTEN"), 10);
}

/// Calls before a part of their thread's records is removed, how many events fill that part, and what comes after; what
/// `hang` then knows: how many collectives the rank has entered, and the number of the first that is incomplete, among
/// the calls or the launches of graphs.
#[test]
fn what_is_left_of_calls_is_understood() {
    let work = "start co Coll ctx=c parent=c1 func=AllReduce count=7 datatype=ncclFloat32 sequence=5
        start op ProxyOp ctx=c parent=co rank=0 channel=0 peer=0 steps=1 is_send=1
        start st ProxyStep ctx=c parent=op step=0";
    let group = "start c3 CollApi ctx=c func=AllReduce count=9 datatype=ncclFloat32
        start o1 Coll ctx=c parent=c1 func=AllReduce count=7 datatype=ncclFloat32 sequence=5
        start o2 Coll ctx=c parent=c2 func=AllReduce count=8 datatype=ncclFloat32 sequence=6
        start o3 Coll ctx=c parent=c3 func=AllReduce count=9 datatype=ncclFloat32 sequence=7";
    let call = "start c1 CollApi ctx=c func=AllReduce count=7 datatype=ncclFloat32";
    let captured = format!("{call} graph_captured=1\nstop c1");
    let two = format!("{call}\nstart c2 CollApi ctx=c func=AllReduce count=8 datatype=ncclFloat32");
    for (what, before, events, after, entered, in_graphs, incomplete) in [
        ("the call is just gone: the rank is in its collective", call, 15_000, work, 1, false, 5),
        ("the call was long ago: the collective is of a graph", captured.as_str(), 40_000, work, 0, true, 5),
        ("the rest of a group does not count beside later calls", two.as_str(), 15_000, group, 1, false, 7),
    ] {
        let scratch = Scratch::new();
        let fill = format!("repeat {events} {{\nstart ga GroupApi ctx=c depth=1\nstop ga\n}}\nsleep 2500ms");
        let script = format!("init c id=0x1234 name=train ranks=1 rank=0\n{before}\n{fill}\n{after}\n");
        let _most = fly(&scratch, SECOND, &script);
        let report = hang(&scratch);
        let problems = report["processes"][0]["problems"].to_string();
        assert!(problems.contains("from its beginning not kept"), "{what}: {report:#}");
        let sequences = &report["communicators"][0]["sequences"];
        assert_eq!(sequences[0]["ranks"][0]["entered"], entered, "{what}: {sequences:#}");
        assert_eq!(sequences.as_array().map(Vec::len), Some(1 + usize::from(in_graphs)), "{what}: {sequences:#}");
        let place = &sequences[usize::from(in_graphs)];
        assert_eq!(place["graphs"] == true, in_graphs, "{what}: {sequences:#}");
        assert_eq!(place["first_incomplete"]["sequence"], incomplete, "{what}: {sequences:#}");
    }
}

#[test]
fn a_flight_that_fits_is_a_whole_trace() {
    let scratch = Scratch::new();
    let script = LONG.replace("100000", "1000");
    let _most = fly(&scratch, ("NCCL_OTF2_FLIGHT_SIZE", "256M"), &script);
    let archive = finalized(&scratch);
    assert_eq!(archive.count("REMOVED"), 0);
    assert_eq!(archive.count("CONTEXTS_TWICE"), 0);
    assert_eq!(archive.count("GROUPAPI::WRITTEN"), 1001);
    assert!(!archive.properties().contains_key("NCCL::FLIGHT::LIST"));
    let events = archive.events();
    assert!(events.contains("\"ncclCommInitRank\""), "with its beginning");
    assert!(events.contains("MPI_COLLECTIVE_BEGIN"));
}
