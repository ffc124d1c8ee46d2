//! The clocks of hosts that bound each other: continuous, straight on pieces of equal length, as few as keep the
//! constraints.

use std::collections::BTreeMap;

use super::bounds::{ANY_DRIFT, Ends, Marks, Observed};
use super::clock::{Correction, Knot, Relation};
use super::paths::{Difference, Extent, extent};
use super::repair::{Need, repair};
use super::{Constraint, MOST_DRIFT, approximate, number, rough, whole};
use crate::write::place::index;

/// Oscillators change their pace with the temperature: a line is believed for no longer than this, ns.
const LONGEST_PIECE: f64 = 600e9;
/// And not asked to bend sooner than this.
const SHORTEST_PIECE: f64 = 2e9;
/// More pieces are not tried.
const MOST_PIECES: usize = 256;
/// Contradictions below this are rounding, ns.
const NEGLIGIBLE: f64 = 64.0;
/// Each round knows the times of constraints and the drifts better than the one before.
const ROUNDS: usize = 4;
/// What rounding may add up to, ns.
const ROUNDING_NS: f64 = 4.0;

/// The corrections of the hosts of one component, with their numbers.
pub(super) fn fit(
    hosts: &[usize],
    spans: &[(u64, u64)],
    constraints: &[Constraint],
) -> Vec<(usize, Correction)> {
    if let [alone] = hosts {
        let clock = Correction {
            reference: number(*alone),
            ..Correction::default()
        };
        return vec![(*alone, clock)];
    }
    let mut ahead = rough::ahead(hosts, constraints);
    let reference = rough::middle(&ahead);
    let zero = ahead.get(reference).copied().unwrap_or(0);
    for ahead in &mut ahead {
        *ahead = ahead.saturating_sub(zero);
    }
    let problem = Problem::of(hosts, &ahead, reference, constraints);
    let best = problem.solve();
    let spans = hosts.iter().map(|&host| spans.get(host).copied());
    let hosts_with = hosts.iter().zip(&ahead).zip(spans).enumerate();
    hosts_with
        .map(|(at, ((&host, &ahead), span))| {
            let base = problem.origin + i128::from(ahead);
            let clock = Correction {
                reference: number(hosts.get(reference).copied().unwrap_or(0)),
                ..problem.correction(&best, at, base, span.unwrap_or((0, 0)))
            };
            (host, clock)
        })
        .collect()
}

struct Problem {
    hosts: usize,
    reference: usize,
    /// The first reading of the constraints, on the reference's clock.
    origin: i128,
    /// From there to the last.
    length: f64,
    /// Sorted by pair.
    observed: Vec<Observed>,
    /// How far each clock is ahead by the rough constant, ns.
    ahead: Vec<f64>,
}

/// Clocks on pieces: by host, then by knot, how far ahead they are beside the rough constant.
#[derive(Clone, Debug, Default)]
struct Curves {
    pieces: usize,
    piece: f64,
    middle: Vec<Vec<f64>>,
    extents: Vec<Extent>,
    /// The contradictions that had to be smoothed.
    slack: f64,
}

impl Curves {
    fn flat(hosts: usize, pieces: usize, length: f64) -> Self {
        Self {
            pieces,
            piece: length / approximate_count(pieces),
            middle: vec![vec![0.0; pieces + 1]; hosts],
            ..Self::default()
        }
    }

    /// The common time at which a host's clock shows this.
    fn common(&self, host: usize, reading: f64) -> f64 {
        let Some(clock) = self.middle.get(host) else {
            return reading;
        };
        let knot = |at: usize| {
            let time = self.piece * approximate_count(at);
            (time + clock.get(at).copied().unwrap_or(0.0), time)
        };
        let (mut low, mut high) = (0, self.pieces);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if knot(middle).0 <= reading {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (from, to) = (knot(low), knot(low + 1));
        from.1 + (reading - from.0) * (to.1 - from.1) / (to.0 - from.0)
    }

    /// What this and no more is known of the drift of the second host against the first on a piece.
    fn drift(&self, hosts: (usize, usize), piece: usize) -> (f64, f64) {
        let difference = |knot: usize| {
            let extent = self.extents.get(knot)?;
            let (first, second) = hosts;
            Some((
                extent.earliest.get(second)? - extent.latest.get(first)?,
                extent.latest.get(second)? - extent.earliest.get(first)?,
            ))
        };
        let (Some(first), Some(last)) = (difference(piece), difference(piece + 1)) else {
            return ANY_DRIFT;
        };
        let slope = |from: f64, to: f64| (to - from) / self.piece;
        let (least, most) = (slope(first.1, last.0), slope(first.0, last.1));
        // Where bounds contradict each other nothing is known better.
        if least.is_finite() && most.is_finite() && least < most && self.slack < NEGLIGIBLE {
            (least.max(ANY_DRIFT.0), most.min(ANY_DRIFT.1))
        } else {
            ANY_DRIFT
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number of pieces")]
fn approximate_count(pieces: usize) -> f64 {
    pieces as f64
}

impl Problem {
    fn of(hosts: &[usize], ahead: &[i64], reference: usize, constraints: &[Constraint]) -> Self {
        let places: BTreeMap<usize, usize> = hosts.iter().copied().zip(0..).collect();
        let place = |boot: u32| places.get(&index(boot)).copied();
        let on_reference = |host: usize, ns: u64| {
            i128::from(ns) - i128::from(ahead.get(host).copied().unwrap_or(0))
        };
        let inside = || {
            constraints.iter().filter_map(|one| {
                let (earlier, later) = (place(one.earlier.boot)?, place(one.later.boot)?);
                let readings = (
                    on_reference(earlier, one.earlier.ns),
                    on_reference(later, one.later.ns),
                );
                Some((earlier, later, readings))
            })
        };
        let times = || inside().flat_map(|(_, _, readings)| [readings.0, readings.1]);
        let origin = times().min().unwrap_or(0);
        let length = times().max().unwrap_or(0) - origin;
        let mut observed: Vec<Observed> = inside()
            .map(|(earlier, later, readings)| Observed {
                earlier,
                later,
                reading: approximate(readings.0 - origin),
                room: approximate(readings.1 - readings.0),
            })
            .collect();
        observed.sort_by(|a, b| {
            a.pair()
                .cmp(&b.pair())
                .then(a.reading.total_cmp(&b.reading))
        });
        Self {
            hosts: hosts.len(),
            reference,
            origin,
            length: approximate(length).max(1e6),
            observed,
            ahead: ahead.iter().map(|&ns| approximate(ns.into())).collect(),
        }
    }

    /// The curves with the fewest pieces that keep the constraints; else those that miss them least.
    fn solve(&self) -> Curves {
        let mut pieces = 1;
        while self.length / approximate_count(pieces) > LONGEST_PIECE && pieces < MOST_PIECES {
            pieces += 1;
        }
        let mut best: Option<Curves> = None;
        loop {
            let curves = self.curves(pieces);
            let slack = curves.slack;
            if best.as_ref().is_none_or(|best| slack < best.slack / 2.0) {
                best = Some(curves);
            }
            pieces *= 2;
            let too_short = self.length / approximate_count(pieces) < SHORTEST_PIECE;
            if slack < NEGLIGIBLE || pieces > MOST_PIECES || too_short {
                return best.unwrap_or_default();
            }
        }
    }

    fn curves(&self, pieces: usize) -> Curves {
        let mut curves = Curves::flat(self.hosts, pieces, self.length);
        for _ in 0..ROUNDS {
            let marks = self.marks(&curves);
            let (extents, slack) = self.extents(&curves, &marks);
            curves.middle = self.middles(&extents);
            (curves.extents, curves.slack) = (extents, slack);
        }
        // Moving a clock moves the times of its constraints, a little: again.
        for _ in 0..ROUNDS {
            let marks = self.marks(&curves);
            let needs: Vec<Need> = marks.iter().flat_map(PairMarks::needs).collect();
            if !repair(&mut curves.middle, self.reference, &needs) {
                break;
            }
        }
        curves.straighten();
        curves
    }

    /// The marks of every pair of hosts.
    fn marks(&self, curves: &Curves) -> Vec<PairMarks> {
        let pairs = self.observed.chunk_by(|a, b| a.pair() == b.pair());
        pairs
            .map(|observed| {
                let pair = observed.first().map_or((0, 0), Observed::pair);
                let mut pieces = vec![Marks::default(); curves.pieces];
                for one in observed {
                    let time = curves
                        .common(one.earlier, one.reading)
                        .clamp(0.0, self.length);
                    let mut piece = 0;
                    while piece + 1 < curves.pieces
                        && curves.piece * approximate_count(piece + 1) <= time
                    {
                        piece += 1;
                    }
                    let within = time - curves.piece * approximate_count(piece);
                    let Some(marks) = pieces.get_mut(piece) else {
                        continue;
                    };
                    if one.earlier == pair.0 {
                        marks.upper.push((within, one.room));
                    } else {
                        marks.lower.push((within, -one.room));
                    }
                }
                pieces.iter_mut().for_each(Marks::reduce);
                PairMarks {
                    pair,
                    pieces,
                    piece: curves.piece,
                }
            })
            .collect()
    }

    /// How early and late every clock can be at every knot.
    fn extents(&self, curves: &Curves, pairs: &[PairMarks]) -> (Vec<Extent>, f64) {
        let mut differences: Vec<Vec<Difference>> = vec![Vec::new(); curves.pieces + 1];
        let mut slack = 0.0_f64;
        for marks in pairs {
            let (known, contradiction) = marks.at_knots(curves);
            slack = slack.max(contradiction);
            let (from, to) = marks.pair;
            for (differences, (least, most)) in differences.iter_mut().zip(known) {
                if most.is_finite() {
                    differences.push(Difference { from, to, most });
                }
                if least.is_finite() {
                    differences.push(Difference {
                        from: to,
                        to: from,
                        most: -least,
                    });
                }
            }
        }
        let extents: Vec<Extent> = differences
            .iter()
            .map(|differences| extent(self.hosts, self.reference, differences))
            .collect();
        for extent in &extents {
            slack = slack.max(extent.slack);
        }
        (extents, slack)
    }

    fn middles(&self, extents: &[Extent]) -> Vec<Vec<f64>> {
        let middle = |extent: &Extent, host: usize| {
            let earliest = extent.earliest.get(host).copied().unwrap_or(0.0);
            let latest = extent.latest.get(host).copied().unwrap_or(0.0);
            match (earliest.is_finite(), latest.is_finite()) {
                (true, true) => f64::midpoint(earliest, latest),
                (true, false) => earliest,
                (false, true) => latest,
                (false, false) => 0.0,
            }
        };
        (0..self.hosts)
            .map(|host| extents.iter().map(|extent| middle(extent, host)).collect())
            .collect()
    }

    /// A host's curve as a correction. `base`: what its clock shows at the origin, by the rough constant.
    fn correction(&self, curves: &Curves, host: usize, base: i128, span: (u64, u64)) -> Correction {
        if host == self.reference {
            return Correction {
                relation: Relation::Reference,
                uncertainty_ns: Some(0),
                ..Correction::default()
            };
        }
        let clock = curves.middle.get(host).map_or(&[][..], Vec::as_slice);
        let ahead = self.ahead.get(host).copied().unwrap_or(0.0);
        let knot = |time: f64, ahead_more: f64| Knot {
            ns: u64::try_from(base + i128::from(whole(time + ahead_more))).unwrap_or(0),
            correction_ns: whole(-ahead - ahead_more),
        };
        let mut knots: Vec<Knot> = (0..)
            .zip(clock)
            .map(|(at, &more)| knot(curves.piece * approximate_count(at), more))
            .collect();
        knots.dedup_by_key(|knot| knot.ns);
        let (Some(first), Some(last)) = (clock.first(), clock.last()) else {
            return Correction::default();
        };
        let drift = (last - first) / self.length;
        curves.extend(&mut knots, host, self.reference, span);
        let mut uncertainty = 0.0_f64;
        for (extent, &middle) in curves.extents.iter().zip(clock) {
            let off = |end: Option<&f64>| end.map_or(f64::INFINITY, |end| (end - middle).abs());
            uncertainty = uncertainty
                .max(off(extent.earliest.get(host)))
                .max(off(extent.latest.get(host)));
        }
        uncertainty += curves.slack + ROUNDING_NS;
        Correction {
            relation: if uncertainty.is_finite() {
                Relation::Bounded
            } else {
                Relation::Believed
            },
            knots,
            drift_ppb: whole(-drift * 1e9),
            uncertainty_ns: uncertainty
                .is_finite()
                .then(|| u64::try_from(whole(uncertainty.ceil())).unwrap_or(u64::MAX)),
            ..Correction::default()
        }
    }
}

impl Curves {
    /// No clock drifts like this: constraints that contradict each other gave its knots. A constant does less harm.
    fn straighten(&mut self) {
        let most = 2.0 * MOST_DRIFT * self.piece;
        for clock in &mut self.middle {
            let wild = |two: &[f64]| matches!(two, [from, to] if (to - from).abs() > most);
            if clock.windows(2).any(wild) {
                let mean = clock.iter().sum::<f64>() / approximate_count(clock.len());
                clock.fill(mean);
            }
        }
    }

    /// Beyond the constraints: as before, where a drift is shown; where none is, none.
    fn extend(&self, knots: &mut Vec<Knot>, host: usize, reference: usize, span: (u64, u64)) {
        let is_shown = |piece: usize| {
            let (least, most) = self.drift((reference, host), piece);
            least > 0.0 || most < 0.0
        };
        let (begin, end) = (span.0.saturating_sub(1), span.1.saturating_add(1));
        let along = |from: Knot, to: Knot, ns: u64, is_shown: bool| {
            if !is_shown {
                return from.correction_ns;
            }
            let run = approximate(i128::from(to.ns) - i128::from(from.ns));
            let rise = approximate(i128::from(to.correction_ns) - i128::from(from.correction_ns));
            let beyond = approximate(i128::from(ns) - i128::from(from.ns));
            from.correction_ns
                .saturating_add(whole(beyond * rise / run))
        };
        if let [first, second, ..] = *knots.as_slice()
            && begin < first.ns
        {
            let correction_ns = along(first, second, begin, is_shown(0));
            knots.insert(
                0,
                Knot {
                    ns: begin,
                    correction_ns,
                },
            );
        }
        if let [.., before, last] = *knots.as_slice()
            && end > last.ns
        {
            let shown = is_shown(self.pieces.saturating_sub(1));
            let correction_ns = along(last, before, end, shown);
            knots.push(Knot {
                ns: end,
                correction_ns,
            });
        }
    }
}

/// The marks of a pair of hosts, by piece.
struct PairMarks {
    pair: (usize, usize),
    pieces: Vec<Marks>,
    piece: f64,
}

impl PairMarks {
    /// Least and most difference at every knot, and by how much marks contradict each other.
    fn at_knots(&self, curves: &Curves) -> (Vec<(f64, f64)>, f64) {
        let mut known = vec![Ends::OPEN.first; self.pieces.len() + 1];
        let mut slack = 0.0_f64;
        let drifts: Vec<(f64, f64)> = (0..self.pieces.len())
            .map(|piece| curves.drift(self.pair, piece))
            .collect();
        for (at, (marks, &drift)) in self.pieces.iter().zip(&drifts).enumerate() {
            let ends = marks.ends(self.piece, drift);
            slack = slack.max(ends.slack);
            for (knot, (least, most)) in [(at, ends.first), (at + 1, ends.last)] {
                if let Some(known) = known.get_mut(knot) {
                    *known = (known.0.max(least), known.1.min(most));
                }
            }
        }
        // What is known at one knot bounds the next, however little traffic there is between.
        let reach = |from: (f64, f64), to: &mut (f64, f64), drift: (f64, f64)| {
            to.0 = to.0.max(from.0 + drift.0 * self.piece);
            to.1 = to.1.min(from.1 + drift.1 * self.piece);
        };
        for (at, &drift) in drifts.iter().enumerate() {
            if let Some([from, to]) = known.get_mut(at..at + 2) {
                reach(*from, to, drift);
            }
        }
        for (at, &drift) in drifts.iter().enumerate().rev() {
            if let Some([to, from]) = known.get_mut(at..at + 2) {
                reach(*from, to, (-drift.1, -drift.0));
            }
        }
        for (least, most) in &mut known {
            if least > most {
                slack = slack.max((*least - *most) / 2.0);
                let middle = f64::midpoint(*least, *most);
                (*least, *most) = (middle, middle);
            }
        }
        (known, slack)
    }

    fn needs(&self) -> impl Iterator<Item = Need> {
        let (first, second) = self.pair;
        self.pieces
            .iter()
            .enumerate()
            .flat_map(move |(knot, marks)| {
                let need = move |mark: &(f64, f64), earlier, later, most| Need {
                    earlier,
                    later,
                    knot,
                    part: (mark.0 / self.piece).clamp(0.0, 1.0),
                    most,
                };
                let upper = marks.upper.iter();
                let lower = marks.lower.iter();
                upper
                    .map(move |mark| need(mark, first, second, mark.1))
                    .chain(lower.map(move |mark| need(mark, second, first, -mark.1)))
            })
    }
}
