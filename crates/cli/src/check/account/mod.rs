//! The archive's account of itself: what was seen is written, or there is a reason why not.

mod gpu;
mod matching;

use analysis::{Completeness, Trace, statement};
use otf2::Archive;

use super::across;
use super::findings::Findings;
use super::rules::Rule;
use crate::place;
use crate::units::plural;

/// How many problems the writer lists, however many there are.
const MOST_PROBLEMS: u64 = 100;

/// Checks the sums, and repeats what the archive admits.
pub(super) fn check(trace: &Trace, account: &Completeness, findings: &mut Findings) {
    let archive = &trace.archive;
    statements(archive, account, findings);
    sums(account, findings);
    losses(account, findings);
    for problem in &account.problems {
        findings.general(Rule::Problem, problem);
    }
    for part in &account.parts_left_out {
        findings.general(Rule::PartLeftOut, part);
    }
    for (number, what) in [
        (
            statement::number(archive, "NCCL::RANKS_CLAIMED_TWICE").unwrap_or(0),
            "ranks are claimed by two processes each; the first has them",
        ),
        (account.number("contexts_twice"), "contexts of communicators came twice"),
        (account.sum("duplicate"), "events came twice; the first counts"),
    ] {
        if number > 0 {
            findings.general(Rule::Twice, format!("{number} {what}"));
        }
    }
    jobs(trace, findings);
    clocks(archive, account, findings);
    gpu::check(archive, findings);
    matching::check(&account.matching, findings);
}

fn statements(archive: &Archive, account: &Completeness, findings: &mut Findings) {
    for (name, value) in archive.properties() {
        let is_number = name.starts_with("NCCL::COUNT::")
            || name.starts_with("NCCL::CLOCK::RESIDUAL")
            || name.starts_with("NCCL::CLOCK::UNCERTAINTY")
            || name.starts_with("NCCL::CLOCK::ALIGNMENT::") && !name.ends_with("::LIST")
            || name.starts_with("NCCL::MISMATCH::") && !name.ends_with("::LIST")
            || name.starts_with("NCCL::GPU::")
                && !matches!(name.as_str(), "NCCL::GPU::BACKEND" | "NCCL::GPU::NOTICES")
                && !name.ends_with("::LIST")
            || name.starts_with("NCCL::GPU_CLOCK::") && (name.ends_with("::RANKS") || name.ends_with("::RESIDUAL_NS"))
            || matches!(
                name.as_str(),
                "NCCL::PROBLEMS"
                    | "NCCL::RANKS_MISSING"
                    | "NCCL::COLLECTIVES_UNMATCHED"
                    | "NCCL::RANKS_CLAIMED_TWICE"
                    | "NCCL::RANKS_BEHIND"
                    | "NCCL::MATCHING_UNKNOWN"
                    | "NCCL::RECORDS"
            );
        if is_number && value.trim().parse::<u64>().is_err() {
            findings.general(Rule::Statement, format!("{name} is {value:?}, which is no number"));
        }
    }
    let (said, listed) = (account.problem_count, account.problems.len() as u64);
    if said.min(MOST_PROBLEMS) > listed {
        let message = format!("{said} problems are counted, {listed} are listed");
        findings.general(Rule::Statement, message);
    }
}

fn sums(account: &Completeness, findings: &mut Findings) {
    for (kind, counts) in &account.kinds {
        let count = |what: &str| counts.get(what).copied().unwrap_or(0);
        let parts = ["written", "not_shown", "duplicate", "left_out"];
        if count("seen") != parts.iter().map(|part| count(part)).sum::<u64>() {
            let parts = parts.map(|part| format!("{} {}", count(part), part.replace('_', " ")));
            let message = format!("{kind}: {} seen, but {}", count("seen"), parts.join(", "));
            findings.general(Rule::Account, message);
        }
        if count("unfinished") > 0 {
            let number = plural(count("unfinished"), "operation", "operations");
            findings.general(Rule::Unfinished, format!("{kind}: {number} had not ended"));
        }
        let lost = [("lost", "start", "starts"), ("stops_lost", "stop", "stops"), ("states_lost", "state", "states")];
        let lost = lost.iter().filter(|(name, ..)| count(name) > 0);
        let lost: Vec<String> = lost.map(|(name, one, many)| plural(count(name), one, many)).collect();
        if !lost.is_empty() {
            let message = format!("{kind}: {} could not be recorded", lost.join(", "));
            findings.general(Rule::Lost, message);
        }
    }
}

/// What was lost against what there must have been: the numbers that events were given, and the totals.
fn losses(account: &Completeness, findings: &mut Findings) {
    for name in ["stops_lost", "states_lost"] {
        let (total, sum) = (account.number(name), account.sum(name));
        if total != sum {
            let what = name.replace('_', " ");
            let message = format!("{total} {what}, but {sum} by kind");
            findings.general(Rule::LossSum, message);
        }
    }
    let lost = account.number("communicators_lost");
    if lost > 0 {
        let number = plural(lost, "beginning or end", "beginnings and ends");
        let message = format!("{number} of communicators could not be recorded");
        findings.general(Rule::Lost, message);
    }
    let started = account.number("started");
    // Empty turns of the proxy are seen and have no number of their own.
    let seen = account.sum("seen").saturating_sub(account.number("controls_counted_only"));
    // Of a flight recording only the end is there.
    let removed = account.number("removed");
    let known = seen + account.sum("lost") + removed;
    // 0: archives and recordings of earlier versions do not say.
    let missing_for_a_reason = account.problem_count > 0 && known < started;
    if started > 0 && known != started && !missing_for_a_reason {
        let lost = account.sum("lost");
        let message = format!("{started} events began, but {seen} were seen, {lost} lost and {removed} not kept");
        findings.general(Rule::Started, message);
    }
}

/// Whose recordings these are: those of two jobs say nothing about either.
fn jobs(trace: &Trace, findings: &mut Findings) {
    let jobs = statement::lines(&trace.archive, "NCCL::JOB");
    if jobs.len() > 1 {
        findings.general(Rule::OneJob, format!("the archive holds recordings of jobs {}", jobs.join(", ")));
    }
    for directory in place::others(&trace.anchor) {
        findings.general(Rule::OneJob, format!("another job recorded into {directory}: it has an archive of its own"));
    }
}

fn clocks(archive: &Archive, account: &Completeness, findings: &mut Findings) {
    let calibration = archive.property("NCCL::CLOCK::CALIBRATION").unwrap_or_default();
    if calibration.lines().any(|line| line == "assumed") {
        let message = "ticks of at least one process were taken for nanoseconds: its times and durations are wrong";
        findings.general(Rule::ClockAssumed, message);
    }
    let inconsistent = |what: &str| {
        let name = format!("NCCL::GPU_CLOCK::INCONSISTENT::{what}");
        statement::number(archive, &name).unwrap_or(0)
    };
    if inconsistent("RANKS") > 0 {
        let message = format!(
            "the GPU clocks of {} contradict their bounds by up to {} ns",
            plural(inconsistent("RANKS"), "rank", "ranks"),
            inconsistent("RESIDUAL_NS")
        );
        findings.general(Rule::GpuInconsistent, message);
    }
    across::alignment_statements(archive, findings);
    let suspicious = account.number("gpu_times_suspicious");
    if suspicious > 0 {
        let number = plural(suspicious, "channel or phase", "channels and phases");
        findings.general(Rule::Suspicious, format!("{number} have GPU times that make no sense"));
    }
}
