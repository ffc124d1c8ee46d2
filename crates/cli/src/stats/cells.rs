//! Cells of all sheets.

use analysis::report::{Budget, Report};
use nccl_events::index::index;

use crate::sheet::Cell;

pub(super) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

#[expect(clippy::cast_precision_loss, reason = "times of days are below 2⁵³ ns")]
pub(super) fn time(ns: u64) -> Cell {
    Cell::Time(ns as f64)
}

pub(super) fn of<T>(value: Option<T>, cell: impl Fn(T) -> Cell) -> Cell {
    value.map_or(Cell::None, cell)
}

#[expect(clippy::cast_precision_loss, reason = "a share is shown with few digits")]
pub(super) fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::None } else { Cell::Share(part as f64 / whole as f64) }
}

pub(super) fn rank(report: &Report, number: u32) -> String {
    report.ranks.get(index(number)).map(|it| it.name.clone()).unwrap_or_default()
}

/// The share of a part; empty if nothing is compared across ranks.
pub(super) fn compared(budget: &Budget, part_ns: u64) -> Cell {
    if budget.not_compared_ns == budget.operations_ns { Cell::None } else { share(part_ns, budget.operations_ns) }
}
