//! Cells of all sheets.

use analysis::results::{Budget, LinkKey, Report};
use analysis::units::real;
use nccl_events::ids::index;
use serde::Serialize;

use crate::sheet::Cell;

pub(super) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

pub(super) fn time(ns: u64) -> Cell {
    Cell::Time(real(ns))
}

pub(super) fn of<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

pub(super) fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::None } else { Cell::Share(real(part) / real(whole)) }
}

pub(super) fn rank(report: &Report, number: u32) -> String {
    report.ranks.get(index(number)).map(|it| it.name.clone()).unwrap_or_default()
}

/// The share of a part; empty if nothing is compared across ranks.
pub(super) fn compared(budget: &Budget, part_ns: u64) -> Cell {
    if budget.not_compared_ns == budget.operations_ns { Cell::None } else { share(part_ns, budget.operations_ns) }
}

pub(super) fn communicator(report: &Report, number: u32) -> String {
    report.communicators.get(index(number)).map(|it| it.name.clone()).unwrap_or_default()
}

/// Whether a rank of the job has one of these numbers in any of its communicators.
pub(super) fn is_wanted(report: &Report, number: Option<u32>, wanted: &[u32]) -> bool {
    let rank = number.and_then(|number| report.ranks.get(usize::try_from(number).ok()?));
    wanted.is_empty() || rank.is_some_and(|rank| rank.members.iter().any(|it| wanted.contains(&it.rank)))
}

pub(super) fn word(kind: impl Serialize) -> String {
    serde_json::to_value(kind).unwrap_or_default().as_str().unwrap_or_default().to_owned()
}

pub(super) fn receiver(report: &Report, key: &LinkKey) -> Option<String> {
    key.to.map(|number| rank(report, number)).or(key.peer.map(|peer| format!("rank {peer}")))
}

/// For example "rank 3 → rank 11" or "channel 5".
pub(super) fn link(report: &Report, key: &LinkKey) -> String {
    let channel = key.channel.map(|channel| format!("channel {channel}"));
    let pair = key.from.zip(receiver(report, key)).map(|(from, to)| format!("{} → {to}", rank(report, from)));
    [pair, channel].into_iter().flatten().collect::<Vec<_>>().join(", ")
}
