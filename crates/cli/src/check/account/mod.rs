//! The archive's account of itself: what was seen is written, or there is a reason why not.

mod gpu;
mod matching;

use analysis::Trace;
use schema::Statements;

use super::across;
use super::findings::Findings;
use super::rules::Rule;
use crate::place;
use crate::units::plural;

/// Checks the sums, and repeats what the archive admits.
pub(super) fn check(trace: &Trace, findings: &mut Findings) {
    let said = &trace.said;
    statements(said, findings);
    sums(said, findings);
    losses(said, findings);
    for problem in said.problems.lines.shown() {
        findings.general(Rule::Problem, problem);
    }
    for part in said.parts_left_out.shown() {
        findings.general(Rule::PartLeftOut, part);
    }
    for (number, what) in [
        (said.ranks_claimed_twice.get(), "ranks are claimed by two processes each; the first has them"),
        (said.counts.contexts_twice, "contexts of communicators came twice"),
        (said.counts.kinds.sum(|kind| kind.duplicate), "events came twice; the first counts"),
    ] {
        if number > 0 {
            findings.general(Rule::Twice, format!("{number} {what}"));
        }
    }
    jobs(trace, findings);
    clocks(said, findings);
    gpu::check(said, findings);
    matching::check(said, findings);
}

fn statements(said: &Statements, findings: &mut Findings) {
    for (name, value) in &said.bad {
        findings.general(Rule::Statement, format!("{name} is {value:?}, which is no number"));
    }
    if !said.problems.has_enough() {
        let (said, listed) = (said.problems.number.get(), said.problems.lines.len());
        let message = format!("{said} problems are counted, {listed} are listed");
        findings.general(Rule::Statement, message);
    }
}

fn sums(said: &Statements, findings: &mut Findings) {
    for (kind, counts) in said.counts.kinds.iter() {
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
        let lost = lost.into_iter().filter(|(number, ..)| *number > 0);
        let lost: Vec<String> = lost.map(|(number, one, many)| plural(number, one, many)).collect();
        if !lost.is_empty() {
            let message = format!("{kind}: {} could not be recorded", lost.join(", "));
            findings.general(Rule::Lost, message);
        }
    }
}

/// What was lost against what there must have been: the numbers that events were given, and the totals.
fn losses(said: &Statements, findings: &mut Findings) {
    let counts = &said.counts;
    for (what, total, sum) in [
        ("stops lost", counts.stops_lost, counts.kinds.sum(|kind| kind.stops_lost)),
        ("states lost", counts.states_lost, counts.kinds.sum(|kind| kind.states_lost)),
    ] {
        if total != sum {
            let message = format!("{total} {what}, but {sum} by kind");
            findings.general(Rule::LossSum, message);
        }
    }
    if counts.communicators_lost > 0 {
        let number = plural(counts.communicators_lost, "beginning or end", "beginnings and ends");
        let message = format!("{number} of communicators could not be recorded");
        findings.general(Rule::Lost, message);
    }
    let Some(started) = said.started.0 else {
        return;
    };
    // Empty turns of the proxy are seen and have no number of their own.
    let seen = counts.kinds.sum(|kind| kind.seen).saturating_sub(counts.controls_counted_only);
    let lost = counts.kinds.sum(|kind| kind.lost);
    // Of a flight recording only the end is there.
    let removed = counts.removed;
    let known = seen.saturating_add(lost).saturating_add(removed);
    let missing_for_a_reason = said.problems.number.get() > 0 && known < started;
    if known != started && !missing_for_a_reason {
        let message = format!("{started} events began, but {seen} were seen, {lost} lost and {removed} not kept");
        findings.general(Rule::Started, message);
    }
}

/// Whose recordings these are: those of two jobs say nothing about either.
fn jobs(trace: &Trace, findings: &mut Findings) {
    let jobs = &trace.said.job.all;
    if jobs.len() > 1 {
        findings.general(Rule::OneJob, format!("the archive holds recordings of jobs {}", jobs.join(", ")));
    }
    for directory in place::others(&trace.anchor) {
        findings.general(Rule::OneJob, format!("another job recorded into {directory}: it has an archive of its own"));
    }
}

fn clocks(said: &Statements, findings: &mut Findings) {
    if said.clock_calibration.all.iter().any(|line| line == "assumed") {
        let message = "ticks of at least one process were taken for nanoseconds: its times and durations are wrong";
        findings.general(Rule::ClockAssumed, message);
    }
    if said.gpu_clock_inconsistent.get() > 0 {
        let message = format!(
            "the GPU clocks of {} contradict their bounds by up to {} ns",
            plural(said.gpu_clock_inconsistent.get(), "rank", "ranks"),
            said.gpu_clock_inconsistent_ns.get()
        );
        findings.general(Rule::GpuInconsistent, message);
    }
    across::alignment_statements(said, findings);
    let suspicious = said.counts.gpu_times_suspicious;
    if suspicious > 0 {
        let number = plural(suspicious, "channel or phase", "channels and phases");
        findings.general(Rule::Suspicious, format!("{number} have GPU times that make no sense"));
    }
}
