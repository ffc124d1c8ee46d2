//! How long ranks take between two meetings: their own times, compared by one clock each.

use std::collections::{BTreeMap, BTreeSet};

use crate::lateness::chance::Table;
use crate::lateness::kernels::{Kernel, Kernels, covered_ns};
use crate::read::NONE;
use crate::statistics::numeric::median;
use crate::units::{real, whole};
use nccl_events::collective::Flow;
use nccl_events::ids::{index as large, index_u32 as small};

/// Windows between meetings of the same ranks, or blocks of time.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The ranks, ascending: the columns of `own`.
    pub(crate) ranks: Vec<u32>,
    /// The own time of each rank in each window, in ns.
    pub(crate) own: Table,
    /// The same without what moved on other streams, where something did: whether that ran beside work is not known.
    pub(crate) without_transfers: Option<Table>,
    pub(crate) windows: Windows,
    /// Whether work of its ranks may be in none of the windows, as it runs beside what they wait in.
    pub(crate) hides_work: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Windows {
    /// The kernels of the meetings before and after each window, by column.
    Meetings(Vec<[Vec<u32>; 2]>),
    /// Begin and end of each block.
    Times(Vec<(u64, u64)>),
}

impl Series {
    /// The length of the blocks of time, if these are compared.
    pub(crate) fn block_ns(&self) -> Option<u64> {
        let Windows::Times(times) = &self.windows else { return None };
        let mut lengths: Vec<f64> = times.iter().map(|(from_ns, to_ns)| real(to_ns.saturating_sub(*from_ns))).collect();
        (!lengths.is_empty()).then(|| whole(median(&mut lengths)))
    }

    pub(crate) const fn is_timed(&self) -> bool {
        matches!(self.windows, Windows::Times(_))
    }

    /// When a window of a rank begins and ends.
    pub(crate) fn window_ns(&self, kernels: &Kernels, window: usize, column: usize) -> (u64, u64) {
        match &self.windows {
            Windows::Times(times) => times[window],
            Windows::Meetings(meetings) => {
                let [before, after] = &meetings[window];
                (kernels.all[large(before[column])].stop_ns, kernels.all[large(after[column])].start_ns)
            }
        }
    }
}

/// A meeting of all of its ranks, with a kernel of each.
struct Meeting {
    communicator: u32,
    is_warm_up: bool,
    /// By rank, ascending.
    kernels: Vec<u32>,
}

/// How many own times are not known: because NCCL does not report what ran, or because it was not recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blind {
    pub(crate) unreported: u64,
    pub(crate) unrecorded: u64,
    /// How many own times there are, known or not.
    pub(crate) of: u64,
}

impl Blind {
    pub(crate) fn share(self) -> f64 {
        real(self.unreported.max(self.unrecorded)) / real(self.of.max(1))
    }
}

/// All series of a job.
pub(crate) fn find(kernels: &Kernels) -> (Vec<Series>, Blind) {
    let components = kernels.components();
    let mut blind = Blind::default();
    let mut found: Vec<Series> = Vec::new();
    for ((ranks, _), (mut meetings, rooted)) in meetings(kernels, &components) {
        // Where few meet, own times between collectives with a root are compared, too.
        if meetings.len() <= LEAST_WINDOWS {
            meetings.extend(rooted);
        }
        found.extend(between_meetings(kernels, ranks, &meetings, &mut blind));
    }
    for ranks in components {
        let is_covered = |series: &Series| series.ranks == ranks && series.own.rows() >= LEAST_WINDOWS;
        if !found.iter().any(is_covered) {
            let steps = in_step(kernels, &ranks);
            let series = between_meetings(kernels, ranks.clone(), &steps, &mut blind);
            let series = series.filter(|series| series.own.rows() >= LEAST_WINDOWS);
            found.extend(series.or_else(|| blocks(kernels, ranks)));
        }
    }
    find_hidden(kernels, &mut found);
    blind.of = found.iter().map(|series| series.own.values.len() as u64).sum();
    (found, blind)
}

/// Finds the series whose meetings run beside other streams of their ranks: what runs there meanwhile is in none of the
/// windows, more of it on ranks that wait longer. They are left out where their ranks have others.
fn find_hidden(kernels: &Kernels, found: &mut Vec<Series>) {
    /// The share of meetings in which something on another stream begins.
    const MOST_BESIDE: f64 = 0.1;
    let is_beside = |number: &u32| {
        let kernel = &kernels.all[large(*number)];
        let during = kernels.between(kernel.rank, kernel.start_ns + 1, kernel.stop_ns);
        kernels.all[during].iter().any(|other| other.stream != kernel.stream)
    };
    for series in &mut *found {
        if let Windows::Meetings(windows) = &series.windows {
            let meetings = || windows.iter().flat_map(|[_, after]| after);
            let beside = meetings().filter(|number| is_beside(number)).count() as u64;
            series.hides_work = real(beside) > MOST_BESIDE * real(meetings().count() as u64);
        }
    }
    let clear = found.iter().filter(|series| !series.hides_work && series.own.rows() >= LEAST_WINDOWS);
    let clear: BTreeSet<u32> = clear.flat_map(|series| series.ranks.iter().copied()).collect();
    found.retain(|series| {
        series.is_timed() || !series.hides_work || series.ranks.iter().any(|rank| !clear.contains(rank))
    });
}

/// With fewer windows between meetings of all, blocks of time are compared, too.
const LEAST_WINDOWS: usize = 8;

/// By a set of ranks and a stream: meetings in which all wait for all, and collectives with a root.
type MeetingsByRanks = BTreeMap<(Vec<u32>, u32), (Vec<Meeting>, Vec<Meeting>)>;

fn meetings(kernels: &Kernels, components: &[Vec<u32>]) -> MeetingsByRanks {
    let rank = |kernel: u32| kernels.all[large(kernel)].rank;
    let mut found = MeetingsByRanks::new();
    for collective in &kernels.collectives {
        let members = kernels.members_of(collective);
        if !collective.is_whole || members.len() < 2 {
            continue;
        }
        let key = (members.iter().map(|kernel| rank(*kernel)).collect(), kernels.all[large(members[0])].stream);
        let meeting = Meeting {
            communicator: collective.communicator,
            is_warm_up: collective.is_warm_up,
            kernels: members.to_vec(),
        };
        let (meetings, rooted) = found.entry(key).or_default();
        if collective.flow == Flow::AllToAll { meetings.push(meeting) } else { rooted.push(meeting) }
    }
    // Messages in which each rank has one with each other one are a meeting, too.
    let mut groups: BTreeMap<(u32, u32, Vec<u32>), Vec<u32>> = BTreeMap::new();
    for range in &kernels.ranks {
        let mut counts: BTreeMap<u32, u32> = BTreeMap::new();
        for at in range.clone().filter(|at| kernels.all[*at].ends.0 < kernels.all[*at].ends.1) {
            let kernel = &kernels.all[at];
            let ends = &kernels.ends[large(kernel.ends.0)..large(kernel.ends.1)];
            let mut ranks: Vec<u32> = ends.iter().map(|end| rank(end.kernel)).chain([kernel.rank]).collect();
            nccl_events::sort::sort(&mut ranks);
            ranks.dedup();
            let count = counts.entry(kernel.communicator).or_default();
            groups.entry((kernel.communicator, *count, ranks)).or_default().push(small(at));
            *count += 1;
        }
    }
    for ((communicator, count, ranks), members) in groups {
        let is_group = ranks.len() > 2 || components.contains(&ranks);
        if is_group && ranks.len() == members.len() {
            let stream = kernels.all[large(members[0])].stream;
            let meeting = Meeting { communicator, is_warm_up: count == 0, kernels: members };
            found.entry((ranks, stream)).or_default().0.push(meeting);
        }
    }
    found
}

/// The k-th kernels of ranks that all do the same, as in a ring of messages: they meet step by step, if not at once.
fn in_step(kernels: &Kernels, ranks: &[u32]) -> Vec<Meeting> {
    let shape = |kernel: &Kernel| {
        let ends = &kernels.ends[large(kernel.ends.0)..large(kernel.ends.1)];
        let sends = ends.iter().filter(|end| end.is_send).count();
        (kernel.function, kernel.communicator, sends, ends.len())
    };
    let first = ranks.first().map_or(&[][..], |rank| kernels.of_rank(*rank));
    let is_same = |rank: &u32| kernels.of_rank(*rank).iter().map(shape).eq(first.iter().map(shape));
    if !ranks.iter().all(is_same) {
        return Vec::new();
    }
    let steps = first.iter().enumerate().map(|(step, kernel)| Meeting {
        communicator: kernel.communicator,
        is_warm_up: step == 0,
        kernels: ranks.iter().map(|rank| small(kernels.ranks[large(*rank)].start + step)).collect(),
    });
    steps.collect()
}

fn between_meetings(kernels: &Kernels, ranks: Vec<u32>, meetings: &[Meeting], blind: &mut Blind) -> Option<Series> {
    let kernel = |number: &u32| &kernels.all[large(*number)];
    let end_ns = |meeting: &Meeting| meeting.kernels.iter().map(|one| kernel(one).stop_ns).max();
    let mut meetings: Vec<&Meeting> = meetings.iter().collect();
    meetings.sort_by_key(|meeting| end_ns(meeting));
    let mut windows: Vec<[Vec<u32>; 2]> = Vec::new();
    let mut before: Option<&Meeting> = None;
    for meeting in meetings {
        let Some(earlier) = before else {
            before = Some(meeting);
            continue;
        };
        let pairs = || earlier.kernels.iter().zip(&meeting.kernels);
        if pairs().all(|(one, other)| kernel(other).start_ns >= kernel(one).stop_ns) {
            if !meeting.is_warm_up {
                windows.push([earlier.kernels.clone(), meeting.kernels.clone()]);
            }
            before = Some(meeting);
        } else if earlier.communicator == meeting.communicator
            && pairs().all(|(one, other)| kernel(other).stop_ns >= kernel(one).stop_ns)
        {
            before = Some(meeting);
        }
    }
    if windows.len() < 2 || ranks.len() < 2 {
        return None;
    }
    let (mut own, mut without_transfers) = (Table::new(ranks.len()), Table::new(ranks.len()));
    for [before, after] in &windows {
        for ((before, after), rank) in before.iter().zip(after).zip(&ranks) {
            let (from_ns, to_ns) = (kernel(before).stop_ns, kernel(after).start_ns);
            let calls = &kernels.unreported[large(*rank)];
            let is_unreported = calls.partition_point(|ns| *ns < from_ns) < calls.partition_point(|ns| *ns <= to_ns);
            let gaps = &kernels.unrecorded[large(*rank)];
            let is_unrecorded = gaps
                .get(gaps.partition_point(|(_, end_ns)| *end_ns < from_ns))
                .is_some_and(|(begin_ns, _)| *begin_ns <= to_ns);
            blind.unreported += u64::from(is_unreported);
            blind.unrecorded += u64::from(is_unrecorded);
            let [with, without] = match is_unreported || is_unrecorded {
                true => [f64::NAN; 2],
                false => own_ns(kernels, *rank, kernel(after), (from_ns, to_ns)),
            };
            own.values.push(with);
            without_transfers.values.push(without);
        }
    }
    let is_same =
        own.values.iter().zip(&without_transfers.values).all(|(with, without)| with.total_cmp(without).is_eq());
    let without_transfers = (!is_same).then_some(without_transfers);
    Some(Series { ranks, own, without_transfers, windows: Windows::Meetings(windows), hides_work: false })
}

/// The time of a rank between two meetings that is its own: with and without what moved on other streams.
fn own_ns(kernels: &Kernels, rank: u32, after: &Kernel, (from_ns, to_ns): (u64, u64)) -> [f64; 2] {
    let whole_ns = real(to_ns.saturating_sub(from_ns));
    let with = whole_ns - covered_ns(&mut not_own(kernels, rank, after, (from_ns, to_ns)));
    let between = kernels.all[kernels.between(rank, from_ns, to_ns)].iter().filter(|kernel| kernel.stop_ns <= to_ns);
    let mut between: Vec<(f64, f64)> = between.map(|kernel| (real(kernel.start_ns), real(kernel.stop_ns))).collect();
    [with, whole_ns - covered_ns(&mut between)]
}

/// When a rank is in kernels on the stream of the meeting `after`, or waits on others.
fn not_own(kernels: &Kernels, rank: u32, after: &Kernel, (from_ns, to_ns): (u64, u64)) -> Vec<(f64, f64)> {
    let between = kernels.all[kernels.between(rank, from_ns, to_ns)].iter().filter(|kernel| kernel.stop_ns <= to_ns);
    let not_own = between.map(|kernel| {
        let until_ns = if kernel.stream == after.stream { kernel.stop_ns } else { kernel.base_ns().min(to_ns) };
        (real(kernel.start_ns), real(until_ns))
    });
    not_own.collect()
}

/// When a rank is in kernels, within a time.
fn in_kernels(kernels: &Kernels, rank: u32, (from_ns, to_ns): (u64, u64)) -> Vec<(f64, f64)> {
    let inside = kernels.of_rank(rank).iter().filter(|kernel| kernel.stop_ns > from_ns);
    let inside = inside.take_while(|kernel| kernel.start_ns < to_ns);
    let clip = |ns: u64| real(ns.clamp(from_ns, to_ns));
    inside.map(|kernel| (clip(kernel.start_ns), clip(kernel.stop_ns))).collect()
}

/// Kernels of the median rank in a block of time. Shorter blocks resonate with the program's period.
const KERNELS: usize = 12;
const LEAST_BLOCKS: usize = 4;
const MOST_BLOCKS: usize = 64;

/// The time of ranks outside of operations, in blocks of time: of ranks that work together and never all meet.
fn blocks(kernels: &Kernels, ranks: Vec<u32>) -> Option<Series> {
    let mut by_count = ranks.clone();
    nccl_events::sort::sort_by_key(&mut by_count, |rank| kernels.of_rank(*rank).len());
    // The mean of the middle two, as a median has it.
    let count = |at: usize| kernels.of_rank(by_count[at]).len();
    let median = count(by_count.len() / 2).midpoint(count((by_count.len() - 1) / 2));
    if median < KERNELS {
        return None;
    }
    let blocks = (median / KERNELS).clamp(LEAST_BLOCKS, MOST_BLOCKS);
    let from_ns = ranks.iter().filter_map(|rank| Some(kernels.of_rank(*rank).first()?.start_ns)).max()?;
    let last_ns = |rank: &u32| kernels.of_rank(*rank).iter().map(|kernel| kernel.stop_ns).max();
    let to_ns = ranks.iter().filter_map(last_ns).min()?;
    let pace = kernels.of_rank(by_count[by_count.len() / 2]).iter().map(|kernel| kernel.stop_ns);
    let inside: Vec<u64> = pace.filter(|ns| (from_ns + 1..to_ns).contains(ns)).collect();
    if inside.len() < blocks {
        return None;
    }
    let cuts = (1..blocks).map(|block| inside[inside.len() * block / blocks]);
    let cuts: Vec<u64> = [from_ns].into_iter().chain(cuts).chain([to_ns]).collect();
    let times: Vec<(u64, u64)> = cuts.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let mut own = Table::new(ranks.len());
    for (from_ns, to_ns) in &times {
        for rank in &ranks {
            let mut inside = in_kernels(kernels, *rank, (*from_ns, *to_ns));
            let is_block = to_ns > from_ns;
            let outside_ns = real(to_ns.saturating_sub(*from_ns)) - covered_ns(&mut inside);
            own.values.push(if is_block { outside_ns } else { f64::NAN });
        }
    }
    Some(Series { ranks, own, without_transfers: None, windows: Windows::Times(times), hides_work: true })
}

/// A clock that runs only while time is a rank's own.
struct OwnClock {
    /// The end of each interval that is not own, and what the clock shows then; first the beginning.
    ends: Vec<(f64, f64)>,
}

impl OwnClock {
    fn new(from_ns: u64, not_own: &mut [(f64, f64)]) -> Self {
        not_own.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut ends = vec![(real(from_ns), 0.0)];
        for (begin, end) in not_own {
            let (last, shown) = ends[ends.len() - 1];
            if *end > last {
                ends.push((*end, shown + (*begin - last).max(0.0)));
            }
        }
        Self { ends }
    }

    fn at(&self, ns: u64) -> f64 {
        let next = self.ends.partition_point(|(end, _)| *end <= real(ns)).max(1);
        let (end, shown) = self.ends[next - 1];
        let running = shown + (real(ns) - end);
        // Within the next interval, the clock stands.
        self.ends.get(next).map_or(running, |(_, shown)| running.min(*shown))
    }
}

/// The kernels of a rank that begin in a window, and at its end, stream by stream; and the own time of the rank before
/// each: from when to when, by a clock that runs while time is its own.
pub(crate) fn own_gaps(
    kernels: &Kernels,
    series: &Series,
    window: usize,
    column: usize,
) -> (Vec<u32>, Vec<(f64, f64)>) {
    let rank = series.ranks[column];
    let (from_ns, to_ns) = series.window_ns(kernels, window, column);
    let meeting = match &series.windows {
        Windows::Times(_) => None,
        Windows::Meetings(meetings) => Some(meetings[window][1][column]),
    };
    let inside = kernels.between(rank, from_ns, to_ns).map(small).chain(meeting);
    let all: Vec<u32> = inside.filter(|at| kernels.all[large(*at)].before != NONE).collect();
    let mut not_own = match meeting {
        Some(meeting) => not_own(kernels, rank, &kernels.all[large(meeting)], (from_ns, to_ns)),
        None => in_kernels(kernels, rank, (from_ns, to_ns)),
    };
    let clock = OwnClock::new(from_ns, &mut not_own);
    let gap = |number: &u32| {
        let kernel = &kernels.all[large(*number)];
        let within = |ns: u64| clock.at(ns.clamp(from_ns, to_ns));
        (within(kernel.start_ns - kernel.gap_ns(&kernels.all)), within(kernel.start_ns))
    };
    let mut streams: Vec<u32> = Vec::new();
    let place = |streams: &mut Vec<u32>, stream: u32| {
        streams.iter().position(|known| *known == stream).unwrap_or_else(|| {
            streams.push(stream);
            streams.len() - 1
        })
    };
    let mut placed: Vec<(usize, u32)> =
        all.iter().map(|at| (place(&mut streams, kernels.all[large(*at)].stream), *at)).collect();
    placed.sort_by_key(|(place, _)| *place);
    let all: Vec<u32> = placed.into_iter().map(|(_, at)| at).collect();
    let gaps = all.iter().map(gap).collect();
    (all, gaps)
}
