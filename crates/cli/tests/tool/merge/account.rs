//! The archives' statements on themselves are combined in the merged archive.

use serde_json::Value;

use super::open;
use crate::tool::made_up::{SECOND, Timer};
use crate::tool::nccl::{NCCL, Nccl};
use crate::tool::score_p::ScoreP;
use crate::tool::support::Scratch;

/// Two archives of the same processes, the second starting a second later.
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

/// `nccl_events::schema` tests each kind of statement.
#[test]
fn what_two_archives_say_is_put_together_by_its_kind() {
    let parts = |parts, fingerprint| {
        [("NCCL::CHAIN::ERRORS", "2"), ("NCCL::PARTS", parts), ("NCCL::PARTS::FINGERPRINT", fingerprint)]
    };
    let (scratch, archive) = merged(&parts("a\nb", "1234567890123456"), &parts("b\nc", "6543210987654321"));
    for (name, value) in [
        ("NCCL::CHAIN::ERRORS", Some("4")),
        ("NCCL::PARTS", Some("a\nb\nc")),
        ("NCCL::PARTS::FINGERPRINT", None),
        ("OTF2::MPI_COMMUNICATION_COMPLETE", Some("true")),
    ] {
        assert_eq!(archive.property(name), value, "{name}");
    }
    let report = scratch.ends(["check", "--json", "out"]).json();
    assert_eq!((&report["faults"], &report["remarks"]), (&Value::from(0), &Value::from(0)), "{report:#}");
    // Score-P's statement covers the whole archive.
    let (_scratch, archive) = merged(&[("OTF2::MPI_COMMUNICATION_COMPLETE", "false")], &[]);
    assert_eq!(archive.property("OTF2::MPI_COMMUNICATION_COMPLETE"), Some("false"));
}
