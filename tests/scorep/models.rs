//! Thread models, versions, with and without the user adapter.

use fake_scorep::{Log, Threads, Variant};

use crate::job::{Job, ROW, all_reduces};

const MODELS: [Threads; 3] = [Threads::None, Threads::Pthread, Threads::OpenMp];

fn variant(version: u8, threads: Threads, user: bool) -> Variant {
    Variant { version, threads, user }
}

/// Checks the calls and operations of a number of all-reduces.
fn assert_all_there(log: &Log, number: usize, context: &str) {
    let master: Vec<_> = log.on("Master thread").collect();
    let named = |name| master.iter().filter(|call| call.region == name).count();
    for name in ["ncclGroupEnd", "ncclAllReduce", "ncclKernelLaunch", "ncclLaunchPlan"] {
        assert_eq!(named(name), number, "{name}, {context}");
    }
    for call in &master {
        // The group's end contains its work.
        let is_inside = matches!(call.region.as_str(), "ncclKernelLaunch" | "ncclLaunchPlan");
        let expected = usize::from(is_inside);
        assert_eq!(call.depth, expected, "{call:?}");
    }
    let bytes = master.iter().filter(|call| call.region == "ncclAllReduce");
    for call in bytes {
        assert_eq!(call.attributes["nccl.bytes"], "64", "{call:?}");
    }
    let row: Vec<_> = log.on(ROW).collect();
    assert_eq!(row.len(), number, "{context}");
    for (place, operation) in row.iter().enumerate() {
        let says = |name: &str| operation.attributes.get(name).map(String::as_str);
        assert_eq!(operation.region, "ncclAllReduce");
        assert_eq!(says("nccl.seq"), Some(place.to_string().as_str()));
        assert_eq!(says("nccl.bytes"), Some("64"));
        assert_eq!(says("nccl.comm_id"), Some("119"));
        assert_eq!(says("nccl.algo"), Some("RING"));
        assert_eq!(says("nccl.timing"), Some("proxy"));
        assert_eq!(says("nccl.unfinished"), None);
        assert_eq!(operation.depth, 0);
    }
    // A call ends before its operation.
    let last = |name| master.iter().rev().find(|call| call.region == name);
    let group = last("ncclGroupEnd").expect("a group");
    let operation = row.last().expect("an operation");
    assert!(group.begin < operation.begin && operation.end > group.end, "{context}");
}

#[test]
fn calls_and_operations_arrive_in_all_thread_models() {
    for threads in MODELS {
        for user in [false, true] {
            let job = Job::script(variant(8, threads, user), &all_reduces(20)).run();
            let log = job.log();
            let context = format!("{threads:?}, user {user}: {}", job.ended);
            assert_all_there(log, 20, &context);
            // Threads that Score-P does not know are not in the trace.
            let expected = ["Master thread", ROW].map(str::to_owned);
            assert!(
                log.locations.iter().all(|name| { expected.contains(name) || name == "Pthread thread" }),
                "{:?}",
                log.locations
            );
            let counts = job.counts();
            assert_eq!((counts["CALLS"], counts["OPERATIONS"]), (82, 20), "{counts:?}");
            assert!(!counts.contains_key("OPERATIONS_DROPPED"), "{counts:?}");
            assert!(
                job.ended.stderr.contains("forwarding to Score-P (libscorep_measurement.so.11, internal functions"),
                "{context}"
            );
            job.assert_whole();
        }
    }
}

#[test]
fn roles_are_those_of_collectives() {
    let job = Job::script(Variant::USUAL, &all_reduces(1)).run();
    let roles = &job.log().roles;
    let role = |name: &str| roles[name];
    assert_eq!((role("ncclAllReduce"), role("ncclBroadcast")), (13, 11));
    assert_eq!((role("ncclReduce"), role("ncclSend")), (12, 15));
    assert_eq!((role("ncclSendRecv"), role("nccl function")), (15, 14));
    assert_eq!(role("ncclKernelLaunch"), 45);
}

#[test]
fn only_the_user_adapter_of_7_1_is_used() {
    for threads in MODELS {
        let job = Job::script(variant(7, threads, true), &all_reduces(20)).run();
        let log = job.log();
        assert_eq!(log.on("Master thread").count(), 82);
        assert!(!log.locations.iter().any(|name| name == ROW));
        let counts = job.counts();
        assert_eq!(counts["CALLS"], 82);
        assert_eq!(counts["OPERATIONS_NOT_PLACED"], 20);
        assert!(job.ended.stderr.contains("user functions"), "{}", job.ended);
        assert!(job.ended.stderr.contains("not 0 calls and 20 operations"), "{}", job.ended);
        job.assert_whole();
    }
}

#[test]
fn an_incomplete_score_p_is_not_called() {
    let job = Job::script(variant(7, Threads::Pthread, false), &all_reduces(2)).run();
    assert_eq!(job.log().intervals.len(), 0);
    assert!(job.ended.stderr.contains("no user adapter (scorep --user)"), "{}", job.ended);
    job.assert_whole();

    // Loaded, and not part of the measurement: it ends the program when it is called.
    let loaded = Job::script(variant(7, Threads::Pthread, true), &all_reduces(2));
    let job = loaded.env("FAKE_SCOREP_USER", "loaded").run();
    assert_eq!(job.log().intervals.len(), 0);
    assert!(job.ended.stderr.contains("not part of the measurement"), "{}", job.ended);
    job.assert_whole();
}

#[test]
fn off_is_off() {
    let job = Job::script(Variant::USUAL, &all_reduces(2)).env("NCCL_OTF2_SCOREP", "off").run();
    assert_eq!(job.log().intervals.len(), 0);
    assert!(job.counts().is_empty());
    assert!(!job.ended.stderr.contains("Score-P"), "{}", job.ended);
}

/// Threads that a library makes are known to 9.0, which costs a location for each, but not ours.
#[test]
fn all_timers_are_known() {
    for timer in ["tsc", "gettimeofday", "clock_gettime"] {
        let job = Job::script(variant(9, Threads::None, false), &all_reduces(20));
        let job = job.env("FAKE_SCOREP_TIMER", timer).run();
        assert_all_there(job.log(), 20, timer);
        // A millisecond and more, in this clock's unit.
        let shortest = match timer {
            "gettimeofday" => 1_000,
            "clock_gettime" => 1_000_000,
            _ => 100_000,
        };
        for operation in job.log().on(ROW) {
            assert!(operation.end - operation.begin >= shortest, "{timer}: {operation:?}");
        }
    }
}
