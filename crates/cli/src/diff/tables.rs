//! A comparison as tables.

use analysis::report::{Comparison, Difference, Group, Kind, Outcome};

use crate::sheet::{Cell, Sheet};

/// What both runs have, and what only one has.
pub(super) fn sheets(comparison: &Comparison) -> [Sheet; 3] {
    [groups(&comparison.groups), only("only in A", &comparison.only_a), only("only in B", &comparison.only_b)]
}

fn groups(groups: &[Group]) -> Sheet {
    let columns = [
        "function", "bytes", "ranks", "outcome", "median_a", "median_b", "change", "from", "to", "waiting", "transfer",
        "p99", "count_a", "count_b", "hosts", "timing", "reason",
    ];
    let mut sheet = Sheet::new("operations, B against A", &columns);
    for group in groups {
        let median = |get: fn(&Difference) -> f64| group.median.map_or(Cell::None, |it| Cell::Time(get(&it)));
        let bound = |at: usize| {
            let bound = group.median.and_then(|it| Some(it.interval_ns?[at] / it.a_ns));
            bound.filter(|bound| bound.is_finite()).map_or(Cell::None, Cell::Share)
        };
        let change = group.median.and_then(|it| it.share);
        sheet.rows.push(vec![
            Cell::Text(group.b.function.clone()),
            Cell::Bytes(group.b.bytes_max),
            Cell::Count(group.b.ranks.into()),
            Cell::Text(outcome(group).to_owned()),
            median(|it| it.a_ns),
            median(|it| it.b_ns),
            change.map_or(Cell::None, Cell::Share),
            bound(0),
            bound(1),
            shown(group.waiting).map_or(Cell::None, |it| Cell::Time(it.difference_ns)),
            shown(group.transfer).map_or(Cell::None, |it| Cell::Time(it.difference_ns)),
            shown(group.p99).and_then(|it| it.share).map_or(Cell::None, Cell::Share),
            Cell::Count(group.a.count),
            Cell::Count(group.b.count),
            Cell::Count(group.b.hosts.into()),
            Cell::Text(group.b.timing.clone()),
            group.reason.clone().map_or(Cell::None, Cell::Text),
        ]);
    }
    sheet
}

/// A difference that the data shows.
fn shown(difference: Option<Difference>) -> Option<Difference> {
    difference.filter(|it| matches!(it.outcome, Outcome::Faster | Outcome::Slower))
}

const fn outcome(group: &Group) -> &'static str {
    match group.outcome {
        _ if group.is_coarse => "not shown",
        Outcome::Faster => "faster",
        Outcome::Slower => "slower",
        Outcome::NoDifference => "no difference",
        Outcome::Unclear => "unclear",
    }
}

fn only(title: &'static str, kinds: &[Kind]) -> Sheet {
    let mut sheet = Sheet::new(title, &["function", "bytes", "ranks", "count", "hosts", "timing", "communicators"]);
    for kind in kinds {
        sheet.rows.push(vec![
            Cell::Text(kind.function.clone()),
            Cell::Bytes(kind.bytes_max),
            Cell::Count(kind.ranks.into()),
            Cell::Count(kind.count),
            Cell::Count(kind.hosts.into()),
            Cell::Text(kind.timing.clone()),
            Cell::Text(kind.communicators.join(", ")),
        ]);
    }
    sheet
}
