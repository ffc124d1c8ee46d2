//! A real NCCL on the stand-in for a GPU, with the stand-in for Score-P.

use fake_scorep::{Threads, Variant};
use whole_plugin::machine::{RELEASE, tested};
use whole_plugin::scratch::Scratch;

use crate::job::{Job, ROW};

/// 200 events a rank: two processes of one rank each, whose main thread only waits for the thread that calls NCCL.
fn run(version: &str, variant: Variant) {
    let scratch = Scratch::new();
    let arguments = ["--procs", "2", "--threads", "1", "--count", "1000", "--rounds", "50"];
    let Some(command) = scratch.nccl(version, &[&arguments[..], &["--ops", "allreduce,sendrecv"]].concat()) else {
        return;
    };
    let job = Job::with(variant, scratch, command).run();
    let context = format!("{version}, {variant:?}: {}", job.ended);
    // Up to 2.26 no process knows that it is the last.
    let _archive = job.scratch.finalize().with_code(0);
    let archive = job.scratch.archive();
    let report = archive.check();
    assert_eq!(report["faults"], 0, "{report:#} {context}");
    let counts = crate::job::counts(&archive);
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);

    // Workers end in order; so does their launcher, which calls no NCCL.
    assert!(job.logs.iter().all(|log| log.has_ended && log.left_open == 0), "{context}");
    let on_location: usize = job.logs.iter().map(|log| log.on(ROW).count()).sum();
    // What waited when the archive was written was shown at the end, but for what overlaps.
    let (shown, waited) = (count("OPERATIONS"), count("OPERATIONS_WAITING"));
    assert!((shown..=shown + waited).contains(&(on_location as u64)), "{on_location}, {counts:?} {context}");
    assert!(on_location >= 100, "{on_location}, {counts:?} {context}");
    let calls = job.logs.iter().flat_map(|log| &log.intervals);
    let calls = calls.filter(|call| call.location != ROW).count();
    assert_eq!(calls as u64, count("CALLS"), "{counts:?} {context}");
    assert!(job.logs.iter().all(|log| !log.locations.iter().any(|name| name.starts_with("Orphan"))), "{context}");

    let properties = archive.properties();
    let seen = |kind: &str| -> u64 {
        let value = properties.get(&format!("NCCL::COUNT::{kind}::SEEN"));
        value.map_or(0, |value| value.parse().expect("a number"))
    };
    let told = count("OPERATIONS")
        + count("OPERATIONS_DROPPED")
        + count("OPERATIONS_OVERLAPPING")
        + count("OPERATIONS_NOT_PLACED")
        + count("OPERATIONS_FILTERED")
        + count("OPERATIONS_CALLS_ONLY")
        + count("OPERATIONS_WAITING");
    assert_eq!(told, seen("COLL") + seen("P2P"), "{counts:?} {context}");
    assert!(told >= 200, "{counts:?} {context}");
    if variant.threads == Threads::Pthread {
        assert!(count("OPERATIONS") >= 100 && count("CALLS") >= 200, "{counts:?} {context}");
    } else {
        assert_eq!(count("CALLS"), 0, "{counts:?} {context}");
        assert!(count("CALLS_UNKNOWN_THREAD") >= 200, "{counts:?} {context}");
    }
}

#[test]
fn every_release_and_thread_model() {
    run(RELEASE, Variant::USUAL);
    run(RELEASE, Variant { threads: Threads::None, ..Variant::USUAL });
    run(RELEASE, Variant { threads: Threads::OpenMp, ..Variant::USUAL });
    run(RELEASE, Variant { user: true, ..Variant::USUAL });
    tested(["2.23.4", "2.28.9"], |release| release).for_each(|release| run(release, Variant::USUAL));
}
