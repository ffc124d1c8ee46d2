//! What the archives say of themselves is one account in the merged one.

use serde_json::Value;

use super::open;
use crate::tool::made_up::{SECOND, Timer};
use crate::tool::nccl::{NCCL, Nccl};
use crate::tool::score_p::ScoreP;
use crate::tool::support::Scratch;

/// Two archives of the same processes, the second from a second later on.
fn merged(first: &[(&'static str, &'static str)], second: &[(&'static str, &'static str)]) -> (Scratch, otf2::Archive) {
    let scratch = Scratch::new();
    ScoreP::new(Timer::Counter).write(&scratch.join("scorep"));
    Nccl { properties: first.to_vec(), ..Nccl::new() }.write(&scratch.join("first"));
    let calls = vec![([NCCL.0 + SECOND; 3], NCCL.1 + SECOND)];
    Nccl { properties: second.to_vec(), calls, ..Nccl::new() }.write(&scratch.join("second"));
    scratch.ends(["merge", "scorep", "first", "second", "-o", "out"]).with_code(0);
    let archive = open(&scratch.join("out"));
    (scratch, archive)
}

#[test]
fn what_two_archives_say_is_put_together_by_its_kind() {
    let (scratch, archive) = merged(
        &[
            ("NCCL::GPU::LAUNCHES", "5"),
            ("NCCL::GPU::LAUNCHES_TIMED", "5"),
            ("NCCL::CHAIN::ERRORS", "2"),
            ("NCCL::FLIGHT::COMPLETE_FROM", "1764000000000000005"),
            ("NCCL::PARTS", "a\nb"),
            ("NCCL::PARTS::NUMBER", "2"),
            ("NCCL::PARTS::FINGERPRINT", "1234567890123456"),
            // As many as the archive has.
            ("NCCL::COUNT::STARTED", "3"),
        ],
        &[
            ("NCCL::GPU::LAUNCHES", "7"),
            ("NCCL::GPU::LAUNCHES_TIMED", "7"),
            ("NCCL::CHAIN::ERRORS", "2"),
            ("NCCL::FLIGHT::COMPLETE_FROM", "1764000000000000009"),
            ("NCCL::PARTS", "b\nc"),
            ("NCCL::PARTS::NUMBER", "2"),
            ("NCCL::PARTS::FINGERPRINT", "6543210987654321"),
        ],
    );
    for (name, value) in [
        ("NCCL::GPU::LAUNCHES", Some("12")),
        ("NCCL::CHAIN::ERRORS", Some("4")),
        ("NCCL::FLIGHT::COMPLETE_FROM", Some("1764000000000000009")),
        ("NCCL::PARTS", Some("a\nb\nc")),
        ("NCCL::PARTS::NUMBER", Some("3")),
        ("NCCL::PARTS::FINGERPRINT", None),
        ("NCCL::COUNT::STARTED", None),
        ("OTF2::MPI_COMMUNICATION_COMPLETE", Some("true")),
    ] {
        assert_eq!(archive.property(name), value, "{name}");
    }
    let report = scratch.ends(["check", "--json", "out"]).json();
    assert_eq!((&report["faults"], &report["remarks"]), (&Value::from(0), &Value::from(0)), "{report:#}");
}

/// Whatever is missing of NCCL's communication: Score-P's promise is for all of the archive.
#[test]
fn an_archive_that_lacks_something_is_not_complete() {
    for said in [
        ("NCCL::COUNT::COLL::LOST", "1"),
        ("NCCL::COUNT::REMOVED", "1"),
        ("NCCL::MEASUREMENT::LIST", "1764000000000000005: alpha:1000: off, events Coll, by a signal"),
    ] {
        let (_scratch, archive) = merged(&[said], &[]);
        assert_eq!(archive.property("OTF2::MPI_COMMUNICATION_COMPLETE"), Some("false"), "{said:?}");
    }
}
