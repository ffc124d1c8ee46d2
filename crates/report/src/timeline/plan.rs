//! What the timeline keeps of an archive that is larger than the page, decided from the analysis before events are
//! read: times of which it keeps everything, and operations of all other times.

use std::collections::BTreeMap;

use analysis::Analysis;
use analysis::read::{NONE, Operation};
use nccl_events::ids::{index as large, index_u32 as small};
use rayon::prelude::*;

/// The longest window gets at most this fraction (1/n) of the events that all windows may have.
const SHARES: u64 = 32;
/// Complete windows that are spread evenly, as an example of what is usual.
const SPREAD: u64 = 16;
/// Windows of each cause, of slow steps, and of operations that had not ended.
const OF_EACH: usize = 3;

/// A time of which all events are kept, while there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// The most important one is 0.
    pub(super) place: u32,
}

/// What a call is kept with: its operation. The first is the best reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum With {
    Chosen,
    /// The operation is in the window of this importance, if that fits.
    Window(u32),
}

#[derive(Debug)]
pub(super) struct Plan {
    /// The time that the page is about.
    pub(super) span: (u64, u64),
    /// What begins later is not wanted.
    until_ns: u64,
    /// Sorted by time; they do not overlap.
    pub(super) windows: Vec<Window>,
    /// Events in windows at most.
    pub(super) most_in_windows: u64,
    /// Number of equal parts of the time. Outside of windows, each location keeps at most one event in each part.
    pub(super) samples: u64,
    /// Whether an operation, by its row, is kept outside of windows, too.
    chosen: Vec<bool>,
    /// The ids of calls of these operations and of those in windows, sorted, and what they are kept with.
    calls: Vec<(u64, With)>,
}

impl Plan {
    /// Keeps about `most` of the events that `events` says each location has at most, and that begin before `until_ns`.
    pub(super) fn of(analysis: &Analysis, span: (u64, u64), until_ns: Option<u64>, most: u64, events: &[u64]) -> Self {
        let until_ns = until_ns.unwrap_or(u64::MAX);
        let operations = &analysis.tables.operations;
        // A part of the run has about the share of the events that it has of the operations. Without operations there
        // may be any number of others.
        let wanted = operations.rows().filter(|it| it.stop_ns >= span.0 && it.start_ns <= until_ns).count() as u64;
        let in_span =
            |events: u64| if wanted == 0 { events } else { (events * wanted).div_ceil(operations.len() as u64) };
        let events: Vec<u64> = events.iter().map(|events| in_span(*events)).collect();
        let all: u64 = events.iter().sum();
        if all <= most {
            let (windows, chosen, calls) = Default::default();
            return Self { span, until_ns, windows, most_in_windows: all, samples: u64::MAX, chosen, calls };
        }
        let most_in_windows = most / 2;
        let length_ns = u128::from(span.1 - span.0) * u128::from(most_in_windows) / u128::from(SHARES * all);
        let length_ns = u64::try_from(length_ns).unwrap_or(u64::MAX).max(1);
        let windows = windows(&moments(analysis, span, length_ns), span, length_ns);
        let chosen = chosen(analysis, span, most / 4);
        let tables = &analysis.tables;
        let with = |row: u32, it: &Operation| match chosen[large(row)] {
            true => Some(With::Chosen),
            false => window_of(&windows, it.start_ns, it.stop_ns).map(|window| With::Window(window.place)),
        };
        let called = (0..).zip(tables.operations.rows()).filter(|(_, it)| it.parent != 0);
        let mut calls: Vec<_> = called.filter_map(|(row, it)| Some((it.parent, with(row, &it)?))).collect();
        calls.par_sort_unstable();
        calls.dedup_by_key(|(id, _)| *id);
        let samples = fitting(most / 4, events.iter().map(|events| (*events, 1)));
        Self { span, until_ns, windows, most_in_windows, samples, chosen, calls }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.samples == u64::MAX
    }

    pub(super) const fn wants(&self, begin_ns: u64, end_ns: u64) -> bool {
        end_ns >= self.span.0 && begin_ns <= self.until_ns
    }

    /// The most important window that an interval reaches into.
    pub(super) fn window(&self, begin_ns: u64, end_ns: u64) -> Option<Window> {
        window_of(&self.windows, begin_ns, end_ns)
    }

    pub(super) fn is_chosen(&self, row: u32) -> bool {
        self.chosen.get(large(row)) == Some(&true)
    }

    /// What the call of this id is kept with, if its operation is kept.
    pub(super) fn call(&self, id: u64) -> Option<With> {
        let at = self.calls.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.calls[at].1)
    }

    /// The part of the span, of `parts` equal ones, that a time is in.
    pub(super) fn part(&self, at_ns: u64, parts: u64) -> usize {
        part(self.span, at_ns, parts)
    }
}

fn part((begin_ns, end_ns): (u64, u64), at_ns: u64, parts: u64) -> usize {
    let at_ns = at_ns.clamp(begin_ns, end_ns) - begin_ns;
    let part = u128::from(at_ns) * u128::from(parts) / (u128::from(end_ns - begin_ns) + 1);
    usize::try_from(part).unwrap_or(usize::MAX)
}

fn window_of(windows: &[Window], begin_ns: u64, end_ns: u64) -> Option<Window> {
    let first = windows.partition_point(|window| window.end_ns < begin_ns);
    let reached = windows[first..].iter().take_while(|window| window.begin_ns <= end_ns);
    reached.min_by_key(|window| window.place).copied()
}

/// The largest limit on the size of a group with which all groups together weigh at most `most`.
fn fitting(most: u64, groups: impl Iterator<Item = (u64, u64)> + Clone) -> u64 {
    let weight = |members: u64| groups.clone().map(|(all, weight)| all.min(members) * weight).sum::<u64>();
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if weight(middle) <= most { low = middle } else { high = middle - 1 }
    }
    low
}

/// Times to look at, the most important first: what had not ended, what the causes did, what took far longer than
/// others of its class, the slowest steps, begin and end, and some in between.
fn moments(analysis: &Analysis, span: (u64, u64), length_ns: u64) -> Vec<(u64, u64)> {
    let Analysis { tables, instances, report, .. } = analysis;
    let mut moments = vec![(span.1.saturating_sub(length_ns), span.1)];
    let mut open: Vec<(u64, u64)> = tables.operations.rows().filter(|it| it.is_unfinished).map(interval).collect();
    open.sort_unstable();
    moments.extend(open.into_iter().take(OF_EACH));
    for rank in report.causes.iter().filter_map(|cause| cause.rank) {
        let of_rank = instances.all.iter().filter(|it| !it.is_warm_up);
        let of_rank = of_rank.filter(|it| it.last.is_some_and(|last| tables.members.row(last).job_rank == rank));
        let mut worst: Vec<(u64, (u64, u64))> = Vec::new();
        for it in of_rank {
            worst.push((it.skew_ns(), (it.arrivals.first_ns, it.arrivals.end_ns)));
            worst.sort_unstable_by(|a, b| b.cmp(a));
            worst.truncate(OF_EACH);
        }
        moments.extend(worst.into_iter().map(|(_, time)| time));
    }
    moments.extend(report.causes.iter().filter_map(|cause| cause.since_ns).map(|ns| (ns, ns)));
    moments.extend(report.anomalies.iter().map(|it| (it.start_ns, it.end_ns)));
    let mut steps: Vec<_> = report.steps.iter().flat_map(|steps| &steps.steps).collect();
    nccl_events::sort::sort_by_key(&mut steps, |step| std::cmp::Reverse(step.duration_ns));
    moments.extend(steps.into_iter().take(OF_EACH).map(|step| (step.start_ns, step.start_ns + step.duration_ns)));
    let first_ns = tables.operations.start_ns.iter().copied().filter(|ns| *ns >= span.0).min().unwrap_or(span.0);
    moments.push((first_ns, first_ns + length_ns));
    let spread = (1..SPREAD).map(|at| first_ns + (span.1.saturating_sub(first_ns)) / SPREAD * at);
    moments.extend(spread.map(|ns| (ns, ns + length_ns)));
    moments
}

const fn interval(operation: Operation) -> (u64, u64) {
    (operation.start_ns, operation.stop_ns)
}

/// The windows of moments: with some room around, cut to the begin and the end where they are long, and disjoint.
fn windows(moments: &[(u64, u64)], span: (u64, u64), length_ns: u64) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    let mut add = |mut begin_ns: u64, mut end_ns: u64| {
        let next = windows.partition_point(|it| it.end_ns < begin_ns);
        let mut at = next;
        if let Some(there) = windows.get(next).filter(|there| there.begin_ns <= begin_ns) {
            begin_ns = there.end_ns + 1;
            at += 1;
        }
        if let Some(behind) = windows.get(at) {
            end_ns = end_ns.min(behind.begin_ns.saturating_sub(1));
        }
        if begin_ns <= end_ns {
            windows.insert(at, Window { begin_ns, end_ns, place: small(windows.len()) });
        }
    };
    for (begin_ns, end_ns) in moments {
        let room_ns = (end_ns.saturating_sub(*begin_ns) / 8).max(length_ns / 16);
        let begin_ns = begin_ns.saturating_sub(room_ns).clamp(span.0, span.1);
        let end_ns = end_ns.saturating_add(room_ns).clamp(begin_ns, span.1);
        if end_ns - begin_ns <= length_ns {
            add(begin_ns, end_ns);
        } else {
            add(begin_ns, begin_ns + length_ns / 2);
            add(end_ns - length_ns / 2, end_ns);
        }
    }
    windows
}

/// Operations that are kept everywhere: of each communicator, in equal parts of the time, the collective that took
/// longest, on all its ranks; the same of operations that were not matched, of each rank.
fn chosen(analysis: &Analysis, span: (u64, u64), most: u64) -> Vec<bool> {
    let Analysis { tables, instances, .. } = analysis;
    let is_in = |begin_ns: u64, end_ns: u64| end_ns >= span.0 && begin_ns <= span.1;
    let units = || {
        let matched = (0..).zip(&instances.all).map(|(number, it)| Unit {
            group: (it.communicator, NONE),
            begin_ns: it.arrivals.first_ns,
            end_ns: it.arrivals.end_ns,
            of: Of::Instance(number),
        });
        let others = (0..).zip(tables.operations.rows()).filter(|(row, _)| instances.of_operation(*row).is_none());
        let others = others.map(|(row, it)| Unit {
            group: (NONE, it.member),
            begin_ns: it.start_ns,
            end_ns: it.stop_ns,
            of: Of::Row(row),
        });
        matched.chain(others).filter(|it| is_in(it.begin_ns, it.end_ns))
    };
    let mut groups: BTreeMap<(u32, u32), Group> = BTreeMap::new();
    units().for_each(|it| groups.entry(it.group).or_default().all += 1);
    let weight = |(comm, _): (u32, u32)| if comm == NONE { 1 } else { tables.members.recorded(comm) as u64 };
    let parts = fitting(most, groups.iter().map(|(group, it)| (it.all, weight(*group))));
    for group in groups.values_mut().filter(|it| it.all > parts) {
        group.longest.resize(usize::try_from(parts).unwrap_or(0), None);
    }
    let mut chosen = vec![false; tables.operations.len()];
    let mut choose = |of: Of| match of {
        Of::Row(row) => chosen[large(row)] = true,
        Of::Instance(number) => {
            let rows = instances.operations(&instances.all[large(number)]).iter();
            rows.for_each(|row| chosen[large(*row)] = true);
        }
    };
    for unit in units() {
        let Some(Group { all, longest }) = groups.get_mut(&unit.group) else {
            continue;
        };
        let length_ns = unit.end_ns.saturating_sub(unit.begin_ns);
        if *all <= parts {
            choose(unit.of);
        } else if let Some(slot) = longest.get_mut(part(span, unit.begin_ns, parts))
            && slot.is_none_or(|(longest_ns, _)| longest_ns < length_ns)
        {
            *slot = Some((length_ns, unit.of));
        }
    }
    groups.values().flat_map(|it| it.longest.iter().flatten()).for_each(|(_, of)| choose(*of));
    chosen
}

/// The units of a group.
#[derive(Default)]
struct Group {
    all: u64,
    /// In each part of the time: its length, and what it is. Empty if all are kept.
    longest: Vec<Option<(u64, Of)>>,
}

/// What is kept together.
struct Unit {
    /// The communicator, or the member of an operation that was not matched.
    group: (u32, u32),
    begin_ns: u64,
    end_ns: u64,
    of: Of,
}

#[derive(Clone, Copy, Debug)]
enum Of {
    Instance(u32),
    Row(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_disjoint_and_keep_what_is_more_important() {
        let made = windows(&[(100, 200), (190, 250), (0, 1000)], (0, 1000), 160);
        let times: Vec<_> = made.iter().map(|it| (it.begin_ns, it.end_ns, it.place)).collect();
        // 100 … 200 with 12 around; what follows begins behind it; the last is cut to its ends.
        assert_eq!(times, [(0, 80, 2), (88, 212, 0), (213, 260, 1), (920, 1000, 3)]);
        let place = |begin, end| window_of(&made, begin, end).map(|it| it.place);
        assert_eq!([place(81, 87), place(70, 90), place(212, 213), place(950, 951)], [None, Some(0), Some(0), Some(3)]);
    }

    #[test]
    fn small_groups_are_kept_and_large_ones_share_the_rest() {
        let groups = [(10, 1), (1000, 1), (1000, 4)];
        assert_eq!(fitting(510, groups.into_iter()), 100);
        assert_eq!(fitting(7, [(1, 1)].into_iter()), 7);
    }
}
