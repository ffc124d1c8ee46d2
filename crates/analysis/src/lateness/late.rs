//! The ranks that are late: how much earlier they would come if they took as long as their peers, and what the others
//! would then spend less in operations.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::lateness::chance::{IMPROBABLE, Suspicion, Table, Test, UNLIKELY, memory, suspicions};
use crate::lateness::kernels::{Collective, Kernels};
use crate::lateness::replay::Replay;
use crate::lateness::series::{self, Blind, Series, Windows, own_gaps};
use crate::read::NONE;
use crate::statistics::numeric::{median, quantile};
use crate::units::real;
use nccl_events::collective::Flow;
use nccl_events::ids::index as large;
use nccl_events::sort::Gather;

/// A loss below this share of all ranks' time in operations is not reported.
pub(crate) const LEAST_SHARE: f64 = 0.02;
/// A rank whose part of what several lose is smaller only passes a delay on.
const LEAST_PART: f64 = 0.1;
/// The most ranks that are examined, those with the most longer times first.
const MOST_LATE: usize = 48;
/// A rank counts as late throughout if its late windows span more than this part of its series.
const MOST_OF_SERIES: f64 = 0.7;
/// The peers whose gaps are compared with those of a late rank.
const MOST_PEERS: usize = 16;
/// The values of peers of which the quantiles are taken.
const MOST_VALUES: usize = 1 << 16;

/// A rank that is late, or may be.
#[derive(Clone, Debug)]
pub(crate) struct LateRank {
    pub(crate) rank: u32,
    /// What the others lose by it, of what they lose by all late ranks.
    pub(crate) lost_ns: f64,
    /// What they would gain if only this rank came in time.
    pub(crate) alone_ns: f64,
    /// Chance gives any rank as much with this probability.
    pub(crate) p_value: f64,
    pub(crate) test: Test,
    /// In which series it is compared: a place in [`Lateness::series`].
    pub(crate) series: usize,
    /// The windows in which it takes longer than its peers beyond chance, and by how much, in ns.
    pub(crate) windows: Vec<(usize, f64)>,
    /// When these windows begin and end.
    pub(crate) times: Vec<(u64, u64)>,
    /// The windows of its series.
    of: usize,
    /// The kernels that come later by that, and by how much, in ns.
    pub(crate) kernels: Vec<(u32, f64)>,
}

impl LateRank {
    /// How much longer it takes than its peers, in ns.
    pub(crate) fn longer_ns(&self) -> f64 {
        self.windows.iter().map(|(_, ns)| ns).sum()
    }

    /// The windows in which it takes longer by at least a quarter of the longest, in order; and when.
    fn long(&self) -> Vec<((usize, f64), (u64, u64))> {
        let longest = self.windows.iter().map(|(_, ns)| *ns).fold(0.0, f64::max);
        let long = self.windows.iter().copied().zip(self.times.iter().copied());
        long.filter(|((_, ns), _)| *ns > 0.25 * longest).collect()
    }

    /// How often it takes longer, and by how much as a rule, in ns.
    pub(crate) fn usually_longer(&self) -> (u64, f64) {
        let mut long: Vec<f64> = self.long().into_iter().map(|((_, ns), _)| ns).collect();
        (long.len() as u64, median(&mut long))
    }

    /// From when to when it was late, if that is clearly shorter than its series, and more than chance: the time with
    /// 94 % of what is longer.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let mut long = self.long();
        let sum: f64 = long.iter().map(|((_, ns), _)| ns).sum();
        let mut before = 0.0;
        long.retain(|((_, ns), _)| {
            let is_inside = before + ns > 0.03 * sum && before < 0.97 * sum;
            before += ns;
            is_inside
        });
        let (((first, _), (from_ns, _)), ((last, _), (_, to_ns))) = (long.first()?, long.last()?);
        let part = real((last - first + 1) as u64) / real(self.of.max(1) as u64);
        // The probability that as many windows, placed at random, fall this close together.
        let count = real(long.len() as u64);
        let chance = count * part.powf(count - 1.0) - (count - 1.0) * part.powf(count);
        (part < MOST_OF_SERIES && chance < UNLIKELY).then_some((*from_ns, *to_ns))
    }
}

/// Ranks that are late together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Late {
    /// By rank.
    pub(crate) ranks: Vec<LateRank>,
    /// The time that all late ranks together cost the other ranks, in ns.
    pub(crate) lost_ns: f64,
    /// Half of its 95 % interval, in ns.
    pub(crate) error_ns: f64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Lateness {
    pub(crate) series: Vec<Series>,
    /// Own times that are not known.
    pub(crate) blind: Blind,
    /// By rank.
    pub(crate) own: Vec<OwnTime>,
    /// By rank: how long others waited while it was the last to come, in ns.
    pub(crate) awaited_ns: Vec<u64>,
    pub(crate) late: Late,
    /// If no rank is late: those that may be.
    pub(crate) perhaps: Late,
    /// If no rank is late: the few collectives with half of all waiting.
    pub(crate) pauses: Option<Pauses>,
    /// The share of what cannot be compared: own times, or time in collectives that lack a rank or a time.
    pub(crate) unclear: f64,
    /// Collectives in which lengths say who came last, because the clocks cannot.
    pub(crate) by_lengths: u64,
}

/// Few collectives with half of all waiting.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pauses {
    pub(crate) collectives: u64,
    /// All collectives in which ranks wait for each other.
    pub(crate) of: u64,
    pub(crate) lost_ns: f64,
    /// The ranks that came last to these, and how often.
    pub(crate) ranks: BTreeMap<u32, u64>,
}

/// With fewer collectives of a kind, none stands out.
const LEAST_COLLECTIVES: usize = 10;
/// How many times as long as usual ranks wait in a pause.
const PAUSE: f64 = 10.0;

/// Finds whether half of all waiting is in at most one of twenty collectives.
fn pauses(kernels: &Kernels, operations_ns: f64) -> Option<Pauses> {
    /// The ranks and the function of collectives.
    type Kind = (Vec<u32>, u32);
    let mut kinds: BTreeMap<Kind, Vec<(f64, u32)>> = BTreeMap::new();
    let is_shared = |one: &&Collective| one.is_whole && one.flow == Flow::AllToAll && !one.is_warm_up;
    for collective in kernels.collectives.iter().filter(is_shared) {
        let members = || kernels.members_of(collective).iter().map(|kernel| &kernels.all[large(*kernel)]);
        let (Some(first), Some(last)) = (members().next(), members().min_by_key(|kernel| kernel.wait_ns)) else {
            continue;
        };
        let key = (members().map(|kernel| kernel.rank).collect(), first.function);
        let waiting = real(members().map(|kernel| kernel.wait_ns).sum());
        kinds.entry(key).or_default().push((waiting, last.rank));
    }
    let mut all: Vec<(f64, u32)> = Vec::new();
    for kind in kinds.into_values() {
        let usual = median(&mut kind.iter().map(|(ns, _)| *ns).collect::<Vec<f64>>());
        let is_pause = |ns: f64| kind.len() >= LEAST_COLLECTIVES && ns > PAUSE * usual;
        all.extend(kind.iter().map(|(ns, rank)| (if is_pause(*ns) { ns - usual } else { 0.0 }, *rank)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let in_collectives = kernels.all.iter().filter(|kernel| kernel.collective != NONE && !kernels.is_warm_up(kernel));
    let waiting = real(in_collectives.map(|kernel| kernel.wait_ns).sum());
    let (mut lost_ns, mut count) = (0.0, 0);
    for (ns, _) in all.iter().take_while(|(ns, _)| *ns > 0.0) {
        if lost_ns >= 0.5 * waiting {
            break;
        }
        (lost_ns, count) = (lost_ns + ns, count + 1);
    }
    let most = all.len() / 20;
    let is_pause = lost_ns >= 0.5 * waiting && lost_ns >= LEAST_SHARE * operations_ns && count <= most.max(1);
    if all.len() < LEAST_COLLECTIVES || count == 0 || !is_pause {
        return None;
    }
    let longest = all[0].0;
    while let Some((ns, _)) = all.get(count).filter(|(ns, _)| count < most && *ns > 0.2 * longest) {
        (lost_ns, count) = (lost_ns + ns, count + 1);
    }
    let mut ranks = BTreeMap::new();
    for (_, rank) in &all[..count] {
        *ranks.entry(*rank).or_default() += 1;
    }
    Some(Pauses { collectives: count as u64, of: all.len() as u64, lost_ns, ranks })
}

/// The share of ranks' time in collectives that lack a rank, a time or an end, or in messages whose waits are unclear.
fn missing(kernels: &Kernels, operations_ns: f64) -> f64 {
    let is_incomplete = |one: &&Collective| !one.is_whole && !one.is_warm_up;
    let incomplete = kernels.collectives.iter().filter(is_incomplete).flat_map(|one| kernels.members_of(one));
    let kernel = |number: &u32| &kernels.all[large(*number)];
    let ns: u64 = incomplete.map(|number| kernel(number).stop_ns - kernel(number).start_ns).sum();
    real(ns + kernels.unclear_ns) / operations_ns.max(1.0)
}

/// A rank's own times beside those of its peers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnTime {
    /// Over all windows of its series, in ns; `None` if it is in none.
    pub(crate) own_ns: Option<f64>,
    pub(crate) windows: u64,
    /// The median over the windows of what its own time exceeds the median of its peers by, in ns.
    pub(crate) typical_ns: Option<f64>,
    /// The sum over the windows of the same, in ns.
    more_ns: f64,
    /// The least probability with which chance explains it; `None`: chance easily does.
    pub(crate) p_value: Option<f64>,
}

/// A suspicion of a rank in a series, with the columns that are suspected there.
type Candidate = (usize, Suspicion, BTreeSet<usize>);

impl Lateness {
    /// Whether a rank's own time is longer by what would matter, if it were beyond chance.
    pub(crate) fn is_longer(&self, own: &OwnTime) -> bool {
        let all_ns: u64 = self.awaited_ns.iter().sum();
        let most_ns = own.typical_ns.map(|ns| own.more_ns.max(ns * real(own.windows)));
        most_ns.is_some_and(|ns| all_ns > 0 && ns >= LEAST_SHARE * real(all_ns))
    }

    /// Drops every accusation, where too few operations were recorded for one.
    pub(crate) fn accuse_nobody(&mut self) {
        (self.late, self.perhaps, self.pauses) = (Late::default(), Late::default(), None);
        self.own.iter_mut().for_each(|own| own.p_value = None);
    }

    /// `operations_ns`: the time of all ranks in operations.
    pub(crate) fn new(kernels: &Kernels, operations_ns: f64) -> Self {
        let (series, blind) = series::find(kernels);
        let tested: Vec<(Vec<Suspicion>, Vec<Suspicion>)> = series.par_iter().map(suspicions_in).collect();
        // The probability of all series together, not of each.
        let count = real(series.len() as u64);
        let (mut certain, mut likely) = (BTreeMap::new(), BTreeMap::new());
        for (number, (found, perhaps)) in tested.into_iter().enumerate() {
            let columns: BTreeSet<usize> = found.iter().map(|late| late.column).collect();
            for (late, is_found) in
                found.into_iter().map(|late| (late, true)).chain(perhaps.into_iter().map(|late| (late, false)))
            {
                let late = Suspicion { p_value: late.p_value * count, ..late };
                let rank = series[number].ranks[late.column];
                let list: &mut BTreeMap<u32, Vec<Candidate>> = match late.p_value {
                    ..IMPROBABLE if is_found => &mut certain,
                    ..UNLIKELY => &mut likely,
                    _ => continue,
                };
                let columns =
                    if is_found && late.p_value < IMPROBABLE { columns.clone() } else { [late.column].into() };
                list.entry(rank).or_default().push((number, late, columns));
            }
        }
        let mut own = own_times(&series, kernels.ranks.len());
        for (rank, candidates) in certain.iter().chain(&likely) {
            let least = candidates.iter().map(|(_, late, _)| late.p_value).fold(f64::INFINITY, f64::min);
            let known = &mut own[large(*rank)].p_value;
            *known = Some(known.map_or(least, |known| known.min(least)));
        }
        let mut found = Self {
            series,
            blind,
            own,
            awaited_ns: kernels.awaited_ns(),
            unclear: missing(kernels, operations_ns).max(blind.share()),
            by_lengths: kernels.collectives.iter().filter(|one| one.is_by_lengths).count() as u64,
            pauses: pauses(kernels, operations_ns),
            ..Self::default()
        };
        if certain.is_empty() && likely.is_empty() {
            return found;
        }
        let search = Search { kernels, replay: Replay::new(kernels), series: &found.series, operations_ns };
        let late = search.lost(&certain);
        let perhaps = if late.ranks.is_empty() { search.lost(&likely) } else { Late::default() };
        found.pauses = found.pauses.filter(|_| late.ranks.is_empty());
        (found.late, found.perhaps) = (late, perhaps);
        found
    }
}

/// The own times of each rank, in the series with the most windows that it is in.
fn own_times(series: &[Series], ranks: usize) -> Vec<OwnTime> {
    let mut found = vec![OwnTime::default(); ranks];
    let mut windows = vec![0; ranks];
    for series in series {
        let excess = series.own.excess_over_others();
        for (column, rank) in series.ranks.iter().enumerate() {
            if series.own.rows() <= windows[large(*rank)] {
                continue;
            }
            let known = |table: &Table| table.column(column).filter(|ns| !ns.is_nan()).collect::<Vec<f64>>();
            let (own, mut more) = (known(&series.own), known(&excess));
            let more_ns = more.iter().sum();
            windows[large(*rank)] = series.own.rows();
            found[large(*rank)] = OwnTime {
                own_ns: Some(own.iter().sum()),
                windows: own.len() as u64,
                typical_ns: (!more.is_empty()).then(|| median(&mut more)),
                more_ns,
                p_value: None,
            };
        }
    }
    found
}

struct Search<'a> {
    kernels: &'a Kernels,
    replay: Replay<'a>,
    series: &'a [Series],
    operations_ns: f64,
}

impl Search<'_> {
    /// The ranks of these that cost the others something, and what.
    fn lost(&self, candidates: &BTreeMap<u32, Vec<Candidate>>) -> Late {
        let mut mended: BTreeMap<u32, LateRank> = candidates
            .par_iter()
            .filter_map(|(rank, candidates)| {
                let mended = candidates.iter().map(|candidate| self.mended(*rank, candidate));
                // The series that shows all of a rank's work, then the one in which it is longest.
                let shows_work = |late: &LateRank| !self.series[late.series].hides_work;
                let best = mended
                    .max_by(|a, b| shows_work(a).cmp(&shows_work(b)).then(a.longer_ns().total_cmp(&b.longer_ns())));
                Some((*rank, best?))
            })
            .collect();
        let others = real((self.kernels.ranks.len() as u64).saturating_sub(1).max(1));
        let least_ns = LEAST_SHARE * self.operations_ns;
        mended.retain(|_, late| late.longer_ns() * others >= least_ns);
        let mut ranks: Vec<u32> = mended.keys().copied().collect();
        ranks.sort_by(|a, b| mended[b].longer_ns().total_cmp(&mended[a].longer_ns()));
        ranks.truncate(MOST_LATE);
        let mut late: BTreeSet<u32> = ranks.into_iter().gather();
        let recorded = self.replay.in_operations(&[]);
        // What the others gain if these ranks come in time. `all`: those whose own gain does not count.
        let gain = |mended_ranks: &BTreeSet<u32>, all: &BTreeSet<u32>| -> f64 {
            let earlier: Vec<(u32, f64)> =
                mended_ranks.iter().flat_map(|rank| mended[rank].kernels.iter().copied()).collect();
            let then = self.replay.in_operations(&earlier);
            let gains = (0..).zip(recorded.iter().zip(then)).filter(|(rank, _)| !all.contains(rank));
            gains.map(|(_, (before, after))| before - after).sum()
        };
        while !late.is_empty() {
            let lost_ns = gain(&late, &late);
            let parts: Vec<(u32, f64, f64)> = late
                .par_iter()
                .map(|rank| {
                    if late.len() == 1 {
                        return (*rank, lost_ns, lost_ns);
                    }
                    let others = late.iter().copied().filter(|other| other != rank).gather();
                    (*rank, lost_ns - gain(&others, &late), gain(&[*rank].into(), &late))
                })
                .collect();
            let mut drop: Vec<u32> =
                parts.iter().filter(|(_, part, alone)| part.max(*alone) < least_ns).map(|(rank, ..)| *rank).collect();
            if drop.is_empty() {
                let small = parts.iter().filter(|(_, part, _)| *part < least_ns.max(LEAST_PART * lost_ns));
                drop.extend(small.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(rank, ..)| *rank));
            }
            if drop.is_empty() {
                if lost_ns < least_ns || self.differ_by_design(&late) {
                    break;
                }
                return self.late(mended, &parts, lost_ns);
            }
            drop.iter().for_each(|rank| {
                late.remove(rank);
            });
        }
        Late::default()
    }

    /// Of five ranks or more that are compared, three have to agree, of fewer a half: else they differ by design.
    fn differ_by_design(&self, late: &BTreeSet<u32>) -> bool {
        let is_most = |series: &Series| {
            let count = series.ranks.iter().filter(|rank| late.contains(rank)).count();
            match series.ranks.len() {
                ranks @ 5.. => count + 3 > ranks,
                ranks => ranks > 2 && 2 * count > ranks,
            }
        };
        self.series.iter().any(is_most)
    }

    fn late(&self, mut mended: BTreeMap<u32, LateRank>, parts: &[(u32, f64, f64)], lost_ns: f64) -> Late {
        let sum: f64 = parts.iter().map(|(_, part, _)| part.max(0.0)).sum();
        let all: BTreeSet<u32> = parts.iter().map(|(rank, ..)| *rank).gather();
        let ranks = parts.iter().filter_map(|(rank, part, alone)| {
            let lost_ns = lost_ns * part.max(0.0) / if sum > 0.0 { sum } else { 1.0 };
            Some(LateRank { lost_ns, alone_ns: *alone, ..mended.remove(rank)? })
        });
        let ranks: Vec<LateRank> = ranks.collect();
        let error = ranks.iter().map(|late| relative_error(&self.series[late.series], late, &all)).fold(0.0, f64::max);
        Late { ranks, lost_ns, error_ns: lost_ns * (2.0 * error).min(1.0) }
    }

    /// How much earlier a rank would come in each window if its own times were distributed as its peers' are.
    fn mended(&self, rank: u32, (number, suspicion, late): &Candidate) -> LateRank {
        let series = &self.series[*number];
        let column = suspicion.column;
        let mut found = LateRank {
            rank,
            lost_ns: 0.0,
            alone_ns: 0.0,
            p_value: suspicion.p_value,
            test: suspicion.test,
            series: *number,
            windows: Vec::new(),
            times: Vec::new(),
            of: series.own.rows(),
            kernels: Vec::new(),
        };
        let peers: Vec<usize> = (0..series.ranks.len()).filter(|other| !late.contains(other)).collect();
        if peers.is_empty() {
            return found;
        }
        let tables = [Some(&series.own), series.without_transfers.as_ref()].into_iter().flatten();
        // What is surely longer.
        let windows = tables.map(|own| longer_windows(own, column, &peers));
        let sum = |windows: &[(usize, f64)]| windows.iter().map(|(_, ns)| ns).sum::<f64>();
        found.windows = windows.min_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap_or_default();
        let pauses = leave_out_pauses(&mut found.windows, series.own.rows());
        if !pauses.is_empty() && !is_suspected_without(series, &pauses, column) {
            found.windows.clear();
        }
        let window_ns = |window| series.window_ns(self.kernels, window, column);
        found.times = found.windows.iter().map(|(window, _)| window_ns(*window)).collect();
        for (window, ns) in &found.windows {
            found.kernels.extend(self.earlier(series, *window, column, *ns, &peers));
        }
        found
    }

    /// Distributes a window's longer time over the gaps before its kernels: where each is longer than those of peers that
    /// do the same, else in proportion to the gaps.
    fn earlier(&self, series: &Series, window: usize, column: usize, ns: f64, peers: &[usize]) -> Vec<(u32, f64)> {
        let function = |kernel: &u32| self.kernels.all[large(*kernel)].function;
        let length = |(from, to): &(f64, f64)| to - from;
        let (own, gaps) = own_gaps(self.kernels, series, window, column);
        let mut weights: Vec<f64> = gaps.iter().map(length).collect();
        if let Windows::Meetings(_) = series.windows {
            let alike = peers.iter().take(MOST_PEERS).filter_map(|peer| {
                let (theirs, gaps) = own_gaps(self.kernels, series, window, *peer);
                let is_alike = theirs.iter().map(function).eq(own.iter().map(function));
                is_alike.then(|| gaps.iter().map(length).collect::<Vec<f64>>())
            });
            let alike: Vec<Vec<f64>> = alike.collect();
            if !alike.is_empty() {
                let median = |at: usize| median(&mut alike.iter().map(|gaps| gaps[at]).collect::<Vec<f64>>());
                let more: Vec<f64> = weights.iter().enumerate().map(|(at, gap)| (gap - median(at)).max(0.0)).collect();
                if more.iter().sum::<f64>() >= 0.5 * ns {
                    weights = more;
                }
            }
        }
        let parts = own.into_iter().zip(spread(&gaps, &weights, ns));
        parts.filter(|(_, ns)| *ns > 0.0).collect()
    }
}

/// Takes `ns` from gaps in proportion to their weights. Time that is in several gaps, of kernels that follow the same one,
/// is taken from all of these and counts once.
fn spread(gaps: &[(f64, f64)], weights: &[f64], ns: f64) -> Vec<f64> {
    let density = |at: usize| weights[at] / (gaps[at].1 - gaps[at].0);
    let mut order: Vec<usize> = (0..gaps.len()).filter(|at| gaps[*at].0 < gaps[*at].1).collect();
    order.sort_by(|a, b| gaps[*a].0.total_cmp(&gaps[*b].0));
    let mut bounds: Vec<f64> = order.iter().flat_map(|at| [gaps[*at].0, gaps[*at].1]).collect();
    bounds.sort_unstable_by(f64::total_cmp);
    bounds.dedup();
    // What is taken from the first bound up to each.
    let mut sums = vec![0.0; bounds.len()];
    let (mut next, mut open): (usize, Vec<usize>) = (0, Vec::new());
    for at in 1..bounds.len() {
        let (from, to) = (bounds[at - 1], bounds[at]);
        while let Some(gap) = order.get(next).filter(|gap| gaps[**gap].0 <= from) {
            open.push(*gap);
            next += 1;
        }
        open.retain(|gap| gaps[*gap].1 > from);
        let most = open.iter().map(|gap| density(*gap)).fold(0.0, f64::max);
        sums[at] = sums[at - 1] + most * (to - from);
    }
    let whole = sums.last().copied().unwrap_or(0.0);
    let sum_at = |bound: f64| sums[bounds.partition_point(|known| *known < bound).min(bounds.len() - 1)];
    let taken = |(from, to): &(f64, f64)| {
        if whole <= 0.0 || from >= to {
            return 0.0;
        }
        (ns * (sum_at(*to) - sum_at(*from)) / whole).min(to - from)
    };
    gaps.iter().map(taken).collect()
}

/// The windows in which a column is longer than if its values were distributed as those of its peers, in order.
fn longer_windows(own: &Table, column: usize, peers: &[usize]) -> Vec<(usize, f64)> {
    let excess = own.excess(peers);
    let pool = pool(&excess, peers);
    let mut own: Vec<(usize, f64)> = excess.column(column).enumerate().filter(|(_, ns)| !ns.is_nan()).collect();
    own.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count = real(own.len() as u64);
    let longer = (0_u64..).zip(own).map(|(place, (window, ns))| {
        (window, if pool.is_empty() { 0.0 } else { ns - quantile(&pool, (real(place) + 0.5) / count) })
    });
    let mut windows: Vec<(usize, f64)> = longer.filter(|(_, ns)| *ns > 0.0).collect();
    windows.sort_by_key(|(window, _)| *window);
    windows
}

/// Removes pauses: a few windows that are far longer than all others do not make a rank late. Returns those removed.
fn leave_out_pauses(windows: &mut Vec<(usize, f64)>, rows: usize) -> BTreeSet<usize> {
    /// Fewer long windows are pauses of a rank, not lateness; in short series, fewer than a fourth of all.
    const LEAST_WINDOWS: usize = 5;
    let least = (rows / 4).clamp(2, LEAST_WINDOWS);
    let mut pauses = BTreeSet::new();
    while rows > least && !windows.is_empty() {
        let longest = windows.iter().map(|(_, ns)| *ns).fold(0.0, f64::max);
        let is_long = |(_, ns): &(usize, f64)| *ns > 0.25 * longest;
        if windows.iter().filter(|window| is_long(window)).count() >= least {
            break;
        }
        pauses.extend(windows.extract_if(.., |window| is_long(window)).map(|(window, _)| window));
    }
    pauses
}

/// The ranks of a series that may be late, whether or not what moved on other streams ran beside their work.
fn suspicions_in(series: &Series) -> (Vec<Suspicion>, Vec<Suspicion>) {
    let (mut found, mut perhaps) = suspicions(&series.own, series.is_timed());
    if let Some(without_transfers) =
        series.without_transfers.as_ref().filter(|_| !found.is_empty() || !perhaps.is_empty())
    {
        let (sure, unsure) = suspicions(without_transfers, series.is_timed());
        let has = |of: &[Suspicion], late: &Suspicion| of.iter().any(|other| other.column == late.column);
        perhaps.extend(found.extract_if(.., |late| !has(&sure, late)));
        perhaps.retain(|late| has(&sure, late) || has(&unsure, late));
    }
    (found, perhaps)
}

/// Whether chance does not explain a rank's own times even without its pauses, which gave it its probability.
fn is_suspected_without(series: &Series, pauses: &BTreeSet<usize>, column: usize) -> bool {
    let rows = (0..series.own.rows()).filter(|row| !pauses.contains(row)).flat_map(|row| series.own.row(row));
    let rest = Table { columns: series.own.columns, values: rows.copied().collect() };
    let (found, perhaps) = suspicions(&rest, series.is_timed());
    found.iter().chain(&perhaps).any(|late| late.column == column)
}

/// What peers exceed their median by, sorted.
fn pool(excess: &Table, peers: &[usize]) -> Vec<f64> {
    let every = excess.rows().saturating_mul(peers.len()).div_ceil(MOST_VALUES).max(1);
    let rows = (0..excess.rows()).step_by(every).map(|row| excess.row(row));
    let values = rows.flat_map(|row| peers.iter().map(|peer| row[*peer]));
    let mut pool: Vec<f64> = values.filter(|value| !value.is_nan()).collect();
    pool.sort_unstable_by(f64::total_cmp);
    pool
}

/// Half of the 95 % interval of what a rank loses: what it would have drawn by chance is taken to be as its peers'.
fn relative_error(series: &Series, late: &LateRank, all: &BTreeSet<u32>) -> f64 {
    let peers: Vec<usize> = (0..series.ranks.len()).filter(|column| !all.contains(&series.ranks[*column])).collect();
    let (windows, longer_ns) = (series.own.rows(), late.longer_ns());
    if peers.is_empty() || windows < 3 || longer_ns <= 0.0 {
        return 1.0;
    }
    let excess = if peers.len() > 1 {
        series.own.excess(&peers)
    } else {
        let mut known: Vec<f64> = series.own.column(peers[0]).filter(|value| !value.is_nan()).collect();
        let middle = median(&mut known);
        let values = series.own.values.iter().map(|value| value - middle).collect();
        Table { columns: series.own.columns, values }
    };
    let excess = excess.of_columns(&peers);
    let mut known: Vec<f64> = excess.values.iter().copied().filter(|value| !value.is_nan()).collect();
    known.sort_unstable_by(f64::total_cmp);
    let (low, high) = (quantile(&known, 0.01), quantile(&known, 0.99));
    known.iter_mut().for_each(|value| *value = value.clamp(low, high));
    let spread = crate::lateness::chance::deviation(&known, 0);
    let (period, memory) = memory(&excess);
    (1.96 * spread * (real((windows * period) as u64) * memory).sqrt() / longer_ns).min(1.0)
}
