//! Checks the archive's account of itself: what was seen is written, or a reason is stated.

use crate::rules::{Findings, Rule};
use analysis::Trace;
use analysis::units::plural;
use hang::Remark;
use nccl_events::schema::{Listed, Statements};

pub(crate) fn check_counts(trace: &Trace, other_jobs: &[String], findings: &mut Findings) {
    let statements = &trace.statements;
    for (name, value) in &statements.bad {
        findings.general(Rule::Statement, format!("{name} is {value:?}, which is not a number"));
    }
    if !statements.problems.has_enough() {
        incomplete("problems", &statements.problems, findings);
    }
    sums(statements, findings);
    losses(statements, findings);
    for problem in statements.problems.lines.shown() {
        findings.general(Rule::Problem, problem);
    }
    for dump in statements.topology_unused.lines.shown() {
        findings.general(Rule::TopologyUsed, dump);
    }
    for part in statements.parts_left_out.shown() {
        findings.general(Rule::PartLeftOut, part);
    }
    for (number, what) in [
        (statements.ranks_claimed_twice.get(), "ranks are claimed by two processes each; the first has them"),
        (statements.counts.contexts_twice, "contexts of communicators came twice"),
        (statements.counts.kinds.sum(|kind| kind.duplicate), "events came twice; the first counts"),
    ] {
        if number > 0 {
            findings.general(Rule::Twice, format!("{number} {what}"));
        }
    }
    let jobs = &statements.job.all;
    if jobs.len() > 1 {
        findings.general(Rule::OneJob, format!("the archive holds recordings of jobs {}", jobs.join(", ")));
    }
    for directory in other_jobs {
        findings.general(Rule::OneJob, format!("another job recorded into {directory}: it has an archive of its own"));
    }
    clocks(statements, findings);
    check_gpu_work(statements, findings);
    matching(statements, findings);
}

fn sums(statements: &Statements, findings: &mut Findings) {
    for (kind, counts) in statements.counts.kinds.iter() {
        let kind = kind.name().to_ascii_lowercase();
        if !counts.adds_up() {
            let message = format!(
                "{kind}: {} seen, but {} written, {} not shown, {} duplicate, {} left out",
                counts.seen, counts.written, counts.not_shown, counts.duplicate, counts.left_out
            );
            findings.general(Rule::Account, message);
        }
        if counts.unfinished > 0 {
            let number = plural(counts.unfinished, "operation", "operations");
            findings.general(Rule::Unfinished, format!("{kind}: {number} had not ended"));
        }
        let lost = [
            (counts.lost, "start", "starts"),
            (counts.stops_lost, "stop", "stops"),
            (counts.states_lost, "state", "states"),
        ];
        let lost: Vec<String> = lost
            .into_iter()
            .filter(|(number, ..)| *number > 0)
            .map(|(number, one, many)| plural(number, one, many))
            .collect();
        if !lost.is_empty() {
            findings.general(Rule::Lost, format!("{kind}: {} could not be recorded", lost.join(", ")));
        }
    }
}

/// Compares losses with the totals, and with the number of events that began.
fn losses(statements: &Statements, findings: &mut Findings) {
    let counts = &statements.counts;
    for (what, total, sum) in [
        ("stops lost", counts.stops_lost, counts.kinds.sum(|kind| kind.stops_lost)),
        ("states lost", counts.states_lost, counts.kinds.sum(|kind| kind.states_lost)),
    ] {
        if total != sum {
            findings.general(Rule::LossSum, format!("{total} {what}, but {sum} by kind"));
        }
    }
    if counts.communicators_lost > 0 {
        let number = plural(counts.communicators_lost, "beginning or end", "beginnings and ends");
        findings.general(Rule::Lost, format!("{number} of communicators could not be recorded"));
    }
    for (number, why) in [
        (counts.ranges_lost, "could not be recorded"),
        (counts.ranges_too_deep, "are nested too deeply to be recorded"),
    ] {
        if number > 0 {
            findings.general(Rule::Lost, format!("{} {why}", plural(number, "range or mark", "ranges and marks")));
        }
    }
    let Some(started) = statements.started.0 else {
        return;
    };
    // Idle iterations of the proxy are counted as seen, but have no event number.
    let seen = counts.kinds.sum(|kind| kind.seen).saturating_sub(counts.controls_counted_only);
    let lost = counts.kinds.sum(|kind| kind.lost);
    // A flight recording keeps only its end.
    let removed = counts.removed;
    let known = seen.saturating_add(lost).saturating_add(removed);
    let missing_for_a_reason = statements.problems.number.get() > 0 && known < started;
    if known != started && !missing_for_a_reason {
        let message = format!("{started} events began, but {seen} were seen, {lost} lost and {removed} not kept");
        findings.general(Rule::Started, message);
    }
}

fn clocks(statements: &Statements, findings: &mut Findings) {
    if statements.has_assumed_ticks() {
        let message = "ticks of at least one process were taken for nanoseconds: its times and durations are wrong";
        findings.general(Rule::ClockAssumed, message);
    }
    if statements.gpu_clock_inconsistent.get() > 0 {
        let message = format!(
            "the GPU clocks of {} contradict their bounds by up to {} ns",
            plural(statements.gpu_clock_inconsistent.get(), "rank", "ranks"),
            statements.gpu_clock_inconsistent_ns.get()
        );
        findings.general(Rule::GpuInconsistent, message);
    }
    let violations = statements.alignment_violations.get();
    if violations > 0 {
        let message = format!(
            "{violations} of {} between the clocks of hosts do not hold, by up to {} ns",
            plural(statements.alignment_constraints.get(), "constraint", "constraints"),
            statements.alignment_worst_violation_ns.get()
        );
        findings.general(Rule::ClocksAdmitted, message);
    }
    let groups = statements.alignment_groups.get();
    if groups > 1 {
        let message = format!(
            "the clocks of {groups} groups of hosts have no common reference: the system clocks are \
            used"
        );
        findings.general(Rule::ClocksAdmitted, message);
    }
    let suspicious = statements.counts.gpu_times_suspicious;
    if suspicious > 0 {
        let number = plural(suspicious, "channel or phase", "channels and phases");
        findings.general(Rule::Suspicious, format!("{number} have implausible GPU times"));
    }
}

/// What the program's calls and settings should not be.
pub(crate) fn check_calls(remarks: &[Remark], findings: &mut Findings) {
    for remark in remarks {
        let (rule, line) = match remark {
            Remark::Reduction(line) => (Rule::SameReduction, line),
            Remark::Tuning(line) => (Rule::SameTuning, line),
            Remark::Order(line) => (Rule::SafeOrder, line),
            Remark::Releases(line) => (Rule::SameRelease, line),
            // The messages of the archive are counted by rank.
            Remark::Unreceived { .. } => continue,
        };
        findings.general(rule, line);
    }
}

/// Ranks that do not call the same collectives: an error of the program, or the end of its run.
fn matching(statements: &Statements, findings: &mut Findings) {
    let rules = [Rule::SameFunction, Rule::SameCount, Rule::SameDatatype, Rule::SameRoot, Rule::SameOrder];
    let mismatches = statements.mismatches().map(|(kind, listed)| (format!("mismatches of {kind}"), listed));
    let mismatches = rules.into_iter().zip(mismatches).map(|(rule, (what, listed))| (rule, what, listed));
    for (rule, what, listed) in mismatches.chain([
        (Rule::EquallyFar, String::new(), &statements.ranks_behind),
        (Rule::MatchingKnown, "communicators that cannot be matched".to_owned(), &statements.matching_unknown),
    ]) {
        listed.lines.shown().iter().for_each(|line| findings.general(rule, line));
        if rule != Rule::EquallyFar && (!listed.has_enough() || listed.lines.len() > listed.number.get()) {
            incomplete(&what, listed, findings);
        }
    }
}

fn incomplete(what: &str, listed: &Listed, findings: &mut Findings) {
    let (counted, there) = (listed.number.get(), listed.lines.len());
    findings.general(Rule::Statement, format!("{counted} {what} are counted, but {there} are listed"));
}

/// Checks what the archive states about missing GPU work.
pub(crate) fn check_gpu_work(statements: &Statements, findings: &mut Findings) {
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
        let because = if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join(", ")) };
        let of = plural(launches, "launch", "launches");
        findings.general(Rule::GpuWorkMissing, format!("the GPU work of {missing} of {of} was not timed{because}"));
    }
    for (number, what) in [
        (counts.dropped_by_cupti, "records were dropped by CUPTI"),
        (counts.bad_records, "records of CUPTI could not be read"),
        (counts.foreign_buffers, "buffers belonged to another user of CUPTI"),
        (counts.late_buffers, "buffers came after recording had ended"),
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
