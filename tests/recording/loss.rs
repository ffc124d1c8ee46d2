//! A journal that is too small: what is lost of an event is not also a riddle, and `nccl-otf2 check` finds that it adds
//! up. That every callback is recorded or counted as lost is for `tests/archive/real_nccl.rs`.

use whole_plugin::archive::Archive;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// A kind's recorded and lost starts, stops and states, by the archive.
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

/// The thread that starts has no room left, the one that stops has: the stop is counted as part of the lost event.
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
    let regions = archive.regions();
    let transfers = regions.iter().filter(|region| region.name.starts_with("net"));
    let mut origins: Vec<_> = transfers.map(|region| (region.text("nccl.comm"), region.text("nccl.origin"))).collect();
    origins.sort_unstable();
    // The first is of this process, of which the archive does not know the rank.
    assert_eq!(origins, [(None, None), (None, Some("<foreign 0x7f0012340000>"))]);
}
