//! Checks what the archive states about missing GPU work.

use schema::Statements;

use crate::findings::Findings;
use crate::rules::Rule;
use analysis::units::plural;

pub(super) fn check(statements: &Statements, findings: &mut Findings) {
    let counts = &statements.gpu_counts;
    let not_timed = [
        (counts.no_event_left, "no prepared event was left for"),
        (counts.refused, "were refused by the driver or CUPTI:"),
        (counts.on_callback_thread, "were on a thread that may not call CUDA:"),
        (counts.unfinished, "were not known when recording ended:"),
        (counts.unmatched, "had no kernel in time:"),
    ];
    // Launches into a graph that was being captured did not run.
    let launches = counts.launches.saturating_sub(counts.captured);
    let untimed = launches.saturating_sub(counts.launches_timed);
    // A flight recording counts launches from its start, but keeps only the times of the last ones.
    let missing = match statements.flight_processes.get() {
        0 => untimed,
        _ => untimed.min(not_timed.iter().fold(0, |sum, (number, _)| sum.saturating_add(*number))),
    };
    if missing > 0 {
        let reasons: Vec<String> = not_timed
            .into_iter()
            .filter(|(number, _)| *number > 0)
            .map(|(number, what)| format!("{what} {number}"))
            .collect();
        let because = match reasons.is_empty() {
            true => String::new(),
            false => format!(": {}", reasons.join(", ")),
        };
        let of = plural(launches, "launch", "launches");
        findings.general(
            Rule::GpuWorkMissing,
            format!("of {missing} of {of} it is not known when their work ran{because}"),
        );
    }
    for (number, what) in [
        (counts.dropped_by_cupti, "records were dropped by CUPTI"),
        (counts.bad_records, "records of CUPTI could not be read"),
        (counts.foreign_buffers, "buffers were another user's of CUPTI"),
        (counts.late_buffers, "buffers came when recording was over"),
        (counts.no_buffer_left, "buffers were missing"),
        (counts.no_room, "records of GPU work had no room in the journal"),
    ] {
        if number > 0 {
            findings.general(Rule::GpuWorkMissing, format!("{number} {what}"));
        }
    }
    let not_placed = counts.not_placed.saturating_add(counts.events_not_used);
    if not_placed > 0 {
        let times = plural(not_placed, "time", "times");
        findings.general(Rule::GpuWorkClock, format!("{times} of GPU work could not be placed"));
    }
    for line in statements.gpu_clocks_list.all.iter().filter(|line| line.contains(", set ")) {
        findings.general(Rule::GpuWorkClock, line);
    }
}
