//! The report, for people and for programs.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::calls::Calls;
use super::clock;
use super::clocks::ByProcess;
use super::output::verify::Read;
use super::pairing::{By, Pair};
use super::plan::Plan;
use super::{nccl, scorep};
use crate::print::Text;
use crate::table::{Side, Table};
use crate::units::plural;

fn ends<'a>(plan: &'a Plan, pair: &Pair) -> Option<(&'a nccl::Process, &'a scorep::Process)> {
    let ours = plan.nccls.get(pair.nccl.0)?.processes.get(pair.nccl.1)?;
    let theirs = plan.scoreps.get(pair.scorep.0)?;
    Some((ours, theirs.processes.get(pair.scorep.1)?))
}

/// One process in words, as the archive says it.
pub(super) fn line(plan: &Plan, pair: &Pair) -> String {
    match ends(plan, pair) {
        Some((ours, theirs)) => format!("{} is {} by {}", ours.name, theirs.name(), pair.by.name()),
        None => String::new(),
    }
}

/// When a process first called NCCL, after the beginning of the trace, in nanoseconds.
fn begins_after_ns(plan: &Plan, locals: &[ByProcess<'_>], pair: &Pair) -> Option<i128> {
    let (ours, _) = ends(plan, pair)?;
    let scorep = plan.scoreps.first()?;
    let locals = locals.get(pair.nccl.0)?.with_events(ours.group);
    let begins = locals.filter_map(|local| {
        let first = local.before.first()?;
        Some(clock::applied(&local.after, first.time))
    });
    let ticks = begins.min()? - i128::from(scorep.span.0);
    Some(ticks * 1_000_000_000 / i128::from(scorep.ticks_per_second))
}

pub(super) fn text(plan: &Plan, calls: Option<&Calls>, written: Option<&(PathBuf, Read)>) -> Text {
    let mut table = Table::new(&[
        ("NCCL", Side::Left),
        ("Score-P", Side::Left),
        ("by", Side::Left),
        ("locations", Side::Right),
        ("events", Side::Right),
        ("begins after", Side::Right),
    ]);
    let locals: Vec<ByProcess<'_>> = plan.locals.iter().map(|all| ByProcess::of(all)).collect();
    for pair in &plan.pairs {
        let Some((ours, theirs)) = ends(plan, pair) else {
            continue;
        };
        let begins = begins_after_ns(plan, &locals, pair);
        table.row(vec![
            ours.name.clone(),
            theirs.name(),
            pair.by.name().to_owned(),
            ours.locations.to_string(),
            ours.events.to_string(),
            begins.map_or_else(|| "-".to_owned(), seconds),
        ]);
    }
    let mut text = Text::default();
    table.print(&mut text);
    let without: usize = plan.scoreps.iter().map(|scorep| scorep.processes.len()).sum();
    let with: std::collections::BTreeSet<_> = plan.pairs.iter().map(|pair| pair.scorep).collect();
    if without > with.len() {
        let number = plural((without - with.len()) as u64, "process", "processes");
        text.line(format_args!("{number} of Score-P's did not record NCCL"));
    }
    text.line(match plan.is_guess {
        true => "clocks: GUESSED (--align-start): where NCCL's events lie against Score-P's is not measured",
        false => "clocks: by the readings of both clocks in each process",
    });
    if let Some(calls) = calls {
        let threads = |number| plural(number, "thread", "threads");
        text.line(format_args!("calls: on Score-P's locations of {}", threads(calls.on_theirs())));
        for (reason, number) in &calls.own {
            text.line(format_args!("calls: on NCCL's own locations of {}: {reason}", threads(*number)));
        }
    }
    match written {
        None => text.line("nothing was written (--dry-run)"),
        Some((anchor, read)) => text.line(format_args!(
            "{}: {}, {}, all read back",
            anchor.display(),
            plural(read.locations, "location", "locations"),
            plural(read.events, "event", "events"),
        )),
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "for people: milliseconds")]
fn seconds(ns: i128) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

pub(super) fn json(plan: &Plan, calls: Option<&Calls>, written: Option<&(PathBuf, Read)>) -> Value {
    let scoreps = plan.scoreps.iter().map(|scorep| {
        json!({
            "anchor": scorep.archive.anchor_file().display().to_string(),
            "creator": scorep.archive.creator(),
            "timer": scorep.timer.name(),
            "ticks_per_second": scorep.ticks_per_second,
            "processes": scorep.processes.len(),
        })
    });
    let nccls = plan.nccls.iter().map(|nccl| {
        json!({
            "anchor": nccl.archive.anchor_file().display().to_string(),
            "processes": nccl.processes.len(),
        })
    });
    let locals: Vec<ByProcess<'_>> = plan.locals.iter().map(|all| ByProcess::of(all)).collect();
    let pairs = plan.pairs.iter().filter_map(|pair| {
        let (ours, theirs) = ends(plan, pair)?;
        let begins = begins_after_ns(plan, &locals, pair);
        Some(json!({
            "name": ours.name,
            "host": ours.host,
            "process_id": ours.process_id,
            "rank": ours.rank,
            "locations": ours.locations,
            "events": ours.events,
            "begins_after_ns": begins.and_then(|ns| i64::try_from(ns).ok()),
            "by": match pair.by {
                By::Map => "map",
                By::Process => "process",
                By::Rank => "rank",
                By::Communicator => "communicator",
            },
            "scorep": {
                "host": theirs.host,
                "process_id": theirs.process_id,
                "rank": theirs.rank,
            },
        }))
    });
    let calls = calls.map(|calls| {
        let own = calls.own.iter().map(|(reason, threads)| json!({ "threads": threads, "reason": reason }));
        json!({ "on_score_p_locations": calls.on_theirs(), "own_locations": own.collect::<Vec<_>>() })
    });
    json!({
        "format": 1,
        "archive": written.map(|(anchor, _)| anchor.display().to_string()),
        "clock": plan.clock(),
        "scorep": scoreps.collect::<Vec<_>>(),
        "nccl": nccls.collect::<Vec<_>>(),
        "calls": calls,
        "pairs": pairs.collect::<Vec<_>>(),
        "locations": written.map(|(_, read)| read.locations),
        "events": written.map(|(_, read)| read.events),
    })
}
