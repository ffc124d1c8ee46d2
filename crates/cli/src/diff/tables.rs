//! Shows a comparison as tables.

use analysis::results::{Comparison, Difference, Group, Kind, Outcome, RangeChange};
use nccl_events::archive::path_of_ranges;

use crate::sheet::{Cell, Sheet};

pub(super) fn sheets(comparison: &Comparison) -> [Sheet; 4] {
    let groups = groups(&comparison.groups);
    let ranges = ranges(&comparison.ranges);
    [groups, ranges, only("only in A", &comparison.only_a), only("only in B", &comparison.only_b)]
}

fn groups(groups: &[Group]) -> Sheet {
    fn median(group: &Group, get: fn(&Difference) -> f64) -> Cell {
        group.median.map_or(Cell::None, |it| Cell::Time(get(&it)))
    }
    fn bound(group: &Group, at: usize) -> Cell {
        group.median.map_or(Cell::None, |it| self::bound(&it, at))
    }
    fn change(difference: Option<Difference>) -> Cell {
        difference.and_then(|it| it.share).map_or(Cell::None, Cell::Share)
    }
    fn time(difference: Option<Difference>) -> Cell {
        difference.map_or(Cell::None, |it| Cell::Time(it.difference_ns))
    }
    Sheet::of(
        "operations, B against A",
        groups,
        &[
            ("function", |it| Cell::Text(it.b.function.clone())),
            ("bytes", |it| Cell::Bytes(it.b.bytes_max)),
            ("ranks", |it| Cell::Count(it.b.ranks.into())),
            ("outcome", |it| Cell::Text(outcome(it).to_owned())),
            ("median_a", |it| median(it, |it| it.a_ns)),
            ("median_b", |it| median(it, |it| it.b_ns)),
            ("change", |it| change(it.median)),
            ("from", |it| bound(it, 0)),
            ("to", |it| bound(it, 1)),
            ("waiting", |it| time(shown(it.waiting))),
            ("transfer", |it| time(shown(it.transfer))),
            ("p99", |it| change(shown(it.p99))),
            ("count_a", |it| Cell::Count(it.a.count)),
            ("count_b", |it| Cell::Count(it.b.count)),
            ("hosts", |it| Cell::Count(it.b.hosts.into())),
            ("timing", |it| Cell::Text(it.b.timing.clone())),
            ("reason", |it| it.reason.clone().map_or(Cell::None, Cell::Text)),
        ],
    )
}

/// An end of the interval, as a share of A.
fn bound(median: &Difference, at: usize) -> Cell {
    let bound = median.interval_ns.map(|interval_ns| interval_ns[at] / median.a_ns);
    bound.filter(|bound| bound.is_finite()).map_or(Cell::None, Cell::Share)
}

fn ranges(ranges: &[RangeChange]) -> Sheet {
    Sheet::of(
        "ranges of the program, B against A",
        ranges,
        &[
            ("range", |it| Cell::Text(path_of_ranges(&it.path))),
            ("outcome", |it| Cell::Text(name(it.median.outcome).to_owned())),
            ("median_a", |it| Cell::Time(it.median.a_ns)),
            ("median_b", |it| Cell::Time(it.median.b_ns)),
            ("change", |it| it.median.share.map_or(Cell::None, Cell::Share)),
            ("from", |it| bound(&it.median, 0)),
            ("to", |it| bound(&it.median, 1)),
            ("count_a", |it| Cell::Count(it.a)),
            ("count_b", |it| Cell::Count(it.b)),
        ],
    )
}

fn shown(difference: Option<Difference>) -> Option<Difference> {
    difference.filter(|it| matches!(it.outcome, Outcome::Faster | Outcome::Slower))
}

const fn outcome(group: &Group) -> &'static str {
    match group.outcome {
        _ if group.is_coarse => "not shown",
        outcome => name(outcome),
    }
}

const fn name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Faster => "faster",
        Outcome::Slower => "slower",
        Outcome::NoDifference => "no difference",
        Outcome::Unclear => "unclear",
    }
}

fn only(title: &'static str, kinds: &[Kind]) -> Sheet {
    Sheet::of(
        title,
        kinds,
        &[
            ("function", |it| Cell::Text(it.function.clone())),
            ("bytes", |it| Cell::Bytes(it.bytes_max)),
            ("ranks", |it| Cell::Count(it.ranks.into())),
            ("count", |it| Cell::Count(it.count)),
            ("hosts", |it| Cell::Count(it.hosts.into())),
            ("timing", |it| Cell::Text(it.timing.clone())),
            ("communicators", |it| Cell::Text(it.communicators.join(", "))),
        ],
    )
}
