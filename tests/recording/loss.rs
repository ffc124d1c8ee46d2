//! A journal that is too small: what the host sent is in the archive or counted as lost, for each kind its starts, its
//! stops and its states, and `nccl-otf2 check` finds that it adds up.

use whole_plugin::archive::Archive;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

const THREADS: u64 = 4;
const ROUNDS: u64 = 3000;

/// An all-reduce on four threads, of which two find room for a part of it and two for nothing.
const ALL_REDUCES: &str = "
    init c ranks=1 rank=0
    parallel 4 {
      repeat 3000 {
        start a%t GroupApi
        state a%t 23
        start b%t CollApi parent=a%t func=AllReduce count=1000 datatype=ncclFloat32
        stop b%t
        start l%t KernelLaunch parent=a%t
        start g%t Group parent=a%t
        start x%t Coll parent=b%t group=g%t func=AllReduce count=1000 datatype=ncclFloat32
        stop x%t
        stop g%t
        stop l%t
        stop a%t
        start o%t ProxyOp parent=x%t peer=0
        state o%t 19
        start s%t ProxyStep parent=o%t step=%i
        state s%t 8
        state s%t 9 bytes=4000
        start n%t NetPlugin parent=s%t
        stop n%t
        stop s%t
        stop o%t
        start k%t KernelCh parent=x%t
        state k%t 22
        stop k%t
        start p%t ProxyCtrl
        state p%t 13
        stop p%t
        start u%t 0x10000
        stop u%t
      }
    }
    finalize c
";

/// Kinds, and how many states each has in a round.
const KINDS: [(&str, u64); 11] = [
    ("GROUPAPI", 1),
    ("COLLAPI", 0),
    ("KERNELLAUNCH", 0),
    ("GROUP", 0),
    ("COLL", 0),
    ("PROXYOP", 1),
    ("PROXYSTEP", 2),
    ("NETPLUGIN", 0),
    ("KERNELCH", 1),
    ("PROXYCTRL", 1),
    ("UNKNOWN", 0),
];

/// What the archive says of a kind: recorded and lost starts, stops, states.
fn recorded_and_lost(archive: &Archive, kind: &str) -> [(u64, u64); 3] {
    [("SEEN", "LOST"), ("STOPS", "STOPS_LOST"), ("STATES", "STATES_LOST")].map(|(recorded, lost)| {
        let count = |name: &str| archive.count(&format!("{kind}::{name}"));
        (count(recorded), count(lost))
    })
}

/// `check` finds no fault; A05 says what could not be recorded. Without the spaces, which also group digits.
fn check(archive: &Archive) -> String {
    let report = archive.sound();
    assert!(report["rules"]["A05"].is_object(), "{report:#}");
    let findings = report["findings"].to_string();
    findings.split_whitespace().collect()
}

#[test]
fn of_each_kind_what_was_sent_is_recorded_or_lost() {
    let scratch = Scratch::new();
    let mut command = scratch.script(ALL_REDUCES);
    command.env("NCCL_OTF2_MAX_SIZE", "3M");
    let _ended = run(&mut command).undisturbed(&["NCCL_OTF2_MAX_SIZE", "were not recorded"]);
    let archive = scratch.archive();
    let findings = check(&archive);
    let rounds = THREADS * ROUNDS;
    let mut totals = [0; 3];
    for (kind, states) in KINDS {
        let parts = recorded_and_lost(&archive, kind);
        let sent = parts.map(|(recorded, lost)| recorded + lost);
        assert_eq!(sent, [rounds, rounds, states * rounds], "{kind}: {parts:?}");
        // Two threads have no room at all.
        for ((recorded, lost), sent) in parts.into_iter().zip(sent) {
            assert!(2 * lost > sent || sent == 0, "{kind}: {parts:?}");
            assert!(recorded > 0 || sent == 0, "{kind}: {parts:?}");
        }
        for (total, (_, lost)) in totals.iter_mut().zip(parts) {
            *total += lost;
        }
        let (_, starts) = parts[0];
        let said = format!("{}:{starts}starts", kind.to_ascii_lowercase());
        assert!(findings.contains(&said), "{said}: {findings}");
    }
    assert_eq!(archive.count("STOPS_LOST"), totals[1]);
    assert_eq!(archive.count("STATES_LOST"), totals[2]);
    assert_eq!(archive.count("STARTED"), rounds * KINDS.len() as u64);
    // What is lost of an event is not also a riddle.
    assert_eq!(archive.count("STOPS_WITHOUT_START"), 0);
    assert_eq!(archive.count("STATES_WITHOUT_START"), 0);
}

/// The thread that starts has no room left, the one that stops has: what it says of the lost event is no riddle.
#[test]
fn the_end_of_a_lost_event_is_lost_on_every_thread() {
    let scratch = Scratch::new();
    let mut command = scratch.script(
        "
        init c ranks=1 rank=0
        thread room {
          start early GroupApi
          stop early
          barrier ready 2
          barrier full 2
          state lost 9
          stop lost
          stop kept
        }
        start kept ProxyStep step=0
        barrier ready 2
        repeat 20000 {
          start g GroupApi
          stop g
        }
        start lost ProxyStep step=1
        barrier full 2
        join room
        finalize c
        ",
    );
    command.env("NCCL_OTF2_MAX_SIZE", "3M");
    let _ended = run(&mut command).undisturbed(&["NCCL_OTF2_MAX_SIZE", "were not recorded"]);
    let archive = scratch.archive();
    let _findings = check(&archive);
    assert_eq!(recorded_and_lost(&archive, "PROXYSTEP"), [(1, 1), (1, 1), (0, 1)]);
    assert_eq!(archive.count("STOPS_WITHOUT_START"), 0);
    assert_eq!(archive.count("STATES_WITHOUT_START"), 0);
}

/// The beginning of a communicator finds no room; a proxy that has some works for it. That is no other process's
/// communicator.
#[test]
fn a_communicator_whose_beginning_is_lost_is_not_a_foreign_one() {
    let scratch = Scratch::new();
    let mut command = scratch.script(
        "
        init c ranks=1 rank=0
        thread proxy {
          start early GroupApi
          stop early
          barrier ready 2
          barrier full 2
          start o ProxyOp ctx=d peer=0
          stop o
          start f ProxyOp ctx=0x7f0012340000 peer=0
          stop f
        }
        barrier ready 2
        repeat 20000 {
          start g GroupApi
          stop g
        }
        init d ranks=1 rank=0
        barrier full 2
        join proxy
        finalize d
        finalize c
        ",
    );
    command.env("NCCL_OTF2_MAX_SIZE", "3M");
    let _ended = run(&mut command).undisturbed(&["NCCL_OTF2_MAX_SIZE", "were not recorded"]);
    let archive = scratch.archive();
    let findings = check(&archive);
    let said = "3beginningsandendsofcommunicatorscouldnotberecorded";
    assert!(findings.contains(said), "{findings}");
    assert_eq!(archive.count("COMMUNICATORS_LOST"), 3);
    assert_eq!(archive.count("UNINITIALISED"), 1);
    assert_eq!(archive.count("FOREIGN"), 1);
    let definitions = archive.definitions();
    for name in ["net <lost init 0x", "net <foreign 0x7f0012340000>"] {
        assert!(definitions.contains(name), "{name}: {definitions}");
    }
}
