//! What the archive admits of GPU work.

use analysis::statement;
use otf2::Archive;

use crate::check::findings::Findings;
use crate::check::rules::Rule;
use crate::units::plural;

/// Why launches are not timed.
const NOT_TIMED: [&str; 5] = ["NO_EVENT_LEFT", "REFUSED", "ON_CALLBACK_THREAD", "UNFINISHED", "UNMATCHED"];

/// Repeats what the archive admits of GPU work.
pub(super) fn check(archive: &Archive, findings: &mut Findings) {
    let number = |name: &str| statement::number(archive, &format!("NCCL::GPU::{name}")).unwrap_or(0);
    // What was launched into a graph did not run.
    let launches = number("LAUNCHES").saturating_sub(number("CAPTURED"));
    let untimed = launches.saturating_sub(number("LAUNCHES_TIMED"));
    // Of a flight recording the launches are counted from its beginning on, and the times are those that were kept.
    let missing = match archive.property("NCCL::FLIGHT::PROCESSES") {
        Some(_) => untimed.min(NOT_TIMED.iter().map(|name| number(name)).sum()),
        None => untimed,
    };
    if missing > 0 {
        let what = [
            "no prepared event was left for",
            "were refused by the driver or CUPTI:",
            "were on a thread that may not call CUDA:",
            "were not known when recording ended:",
            "had no kernel in time:",
        ];
        let reasons = NOT_TIMED.into_iter().zip(what);
        let reasons = reasons.filter(|(name, _)| number(name) > 0);
        let reasons: Vec<String> = reasons.map(|(name, what)| format!("{what} {}", number(name))).collect();
        let because = match reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons.join(", ")),
        };
        let of = plural(launches, "launch", "launches");
        let message = format!("of {missing} of {of} it is not known when their work ran{because}");
        findings.general(Rule::GpuWorkMissing, message);
    }
    for (name, what) in [
        ("DROPPED_BY_CUPTI", "records were dropped by CUPTI"),
        ("BAD_RECORDS", "records of CUPTI could not be read"),
        ("FOREIGN_BUFFERS", "buffers were another user's of CUPTI"),
        ("LATE_BUFFERS", "buffers came when recording was over"),
        ("NO_BUFFER_LEFT", "buffers were missing"),
        ("NO_ROOM", "records of GPU work had no room in the journal"),
    ] {
        if number(name) > 0 {
            findings.general(Rule::GpuWorkMissing, format!("{} {what}", number(name)));
        }
    }
    let not_placed = number("NOT_PLACED") + number("EVENTS_NOT_USED");
    if not_placed > 0 {
        let times = plural(not_placed, "time", "times");
        let message = format!("{times} of GPU work could not be placed");
        findings.general(Rule::GpuWorkClock, message);
    }
    let clocks = archive.property("NCCL::GPU::CLOCKS::LIST");
    for line in clocks.unwrap_or_default().lines() {
        if line.contains(", set ") {
            findings.general(Rule::GpuWorkClock, line);
        }
    }
}
