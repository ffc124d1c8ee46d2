//! Finds the clocks of hosts that bound each other: continuous, straight on the fewest equal pieces that fit.
//! [`Curves`] are such clocks, and [`PairBounds`] the differences of two hosts that constraints allow on each piece.

use std::collections::BTreeMap;

use crate::fit::{Bounds, OPEN, Point, Range, approximate, whole};
use crate::hosts::constraints;
use crate::hosts::constraints::{Constraint, Correction, Difference, Extent, KnotConstraint, Relation, extent, repair};
use crate::piecewise::{Beyond, Knot, Piecewise};
use nccl_events::sort::Gather;

/// Oscillators change their rate with the temperature: a line is assumed for no longer than this, ns.
const LONGEST_PIECE: f64 = 600e9;
/// Shortest time between bends, ns.
const SHORTEST_PIECE: f64 = 2e9;
/// Limit on the number of pieces.
const MOST_PIECES: usize = 256;
/// Each round uses better times of constraints and better drifts than the previous one.
const ROUNDS: usize = 4;
/// Total rounding error, ns.
const ROUNDING_NS: f64 = 4.0;

/// The corrections of the hosts of one component, with their numbers.
pub(super) fn solve(hosts: &[usize], spans: &[(u64, u64)], constraints: &[Constraint]) -> Vec<(usize, Correction)> {
    if let &[reference] = hosts {
        let clock = Correction { reference, ..Correction::default() };
        return vec![(reference, clock)];
    }
    let mut ahead = constraints::ahead(hosts, constraints);
    let reference = constraints::middle(&ahead);
    let zero = ahead.get(reference).copied().unwrap_or(0);
    ahead.iter_mut().for_each(|ahead| *ahead = ahead.saturating_sub(zero));
    let problem = Problem::new(hosts, ahead, reference, constraints);
    let best = problem.best();
    let corrected = hosts.iter().enumerate().map(|(at, &host)| {
        let span = spans.get(host).copied().unwrap_or_default();
        let clock =
            Correction { reference: hosts.get(reference).copied().unwrap_or(0), ..problem.correction(&best, at, span) };
        (host, clock)
    });
    corrected.collect()
}

/// A constraint for computation: readings minus each host's rough constant, ns.
struct ApproximateConstraint {
    earlier: usize,
    later: usize,
    reading: f64,
    /// The later reading minus the earlier one.
    room: f64,
}

impl ApproximateConstraint {
    fn pair(&self) -> (usize, usize) {
        (self.earlier.min(self.later), self.earlier.max(self.later))
    }
}

struct Problem {
    reference: usize,
    /// Before the first reading in the constraints, on the reference's clock.
    origin: i128,
    length: f64,
    /// Sorted by pair.
    observed: Vec<ApproximateConstraint>,
    /// The lead of each clock by the rough constant, ns.
    ahead: Vec<i64>,
}

impl Problem {
    fn new(hosts: &[usize], ahead: Vec<i64>, reference: usize, constraints: &[Constraint]) -> Self {
        let places: BTreeMap<usize, usize> = hosts.iter().copied().zip(0..).gather();
        let on_reference = |host: usize, ns: u64| i128::from(ns) - i128::from(ahead.get(host).copied().unwrap_or(0));
        let inside = || {
            constraints.iter().filter_map(|one| {
                let earlier = *places.get(&one.earlier.boot)?;
                let later = *places.get(&one.later.boot)?;
                let readings = (on_reference(earlier, one.earlier.ns), on_reference(later, one.later.ns));
                Some((earlier, later, readings))
            })
        };
        let times = || inside().flat_map(|(_, _, readings)| [readings.0, readings.1]);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        // Drift moves the times of constraints: none may end up beyond the pieces.
        let margin = whole(MOST_DRIFT * approximate(last - first));
        let origin = first - margin;
        let length = last - origin + margin;
        let mut observed: Vec<ApproximateConstraint> = inside()
            .map(|(earlier, later, readings)| ApproximateConstraint {
                earlier,
                later,
                reading: approximate(readings.0 - origin),
                room: approximate(readings.1 - readings.0),
            })
            .collect();
        nccl_events::sort::sort_by(&mut observed, |a, b| a.pair().cmp(&b.pair()).then(a.reading.total_cmp(&b.reading)));
        Self { reference, origin, length: approximate(length).max(1e6), observed, ahead }
    }

    /// The curves with the fewest pieces that satisfy the constraints; else those with the least slack.
    fn best(&self) -> Curves {
        let mut pieces = 1;
        while self.length / count(pieces) > LONGEST_PIECE && pieces < MOST_PIECES {
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
            let too_short = self.length / count(pieces) < SHORTEST_PIECE;
            if slack < NEGLIGIBLE || pieces > MOST_PIECES || too_short {
                return best.unwrap_or_default();
            }
        }
    }

    fn curves(&self, pieces: usize) -> Curves {
        let mut curves = Curves::flat(self.ahead.len(), pieces, self.length);
        for _ in 0..ROUNDS {
            let bounds = self.bounds(&curves);
            let (extents, slack) = self.extents(&curves, &bounds);
            let middles = (0..self.ahead.len()).map(|host| extents.iter().map(|extent| extent.middle(host)).collect());
            curves.middle = middles.collect();
            (curves.extents, curves.slack) = (extents, slack);
        }
        // Moving a clock slightly moves the times of its constraints, so repeats.
        for _ in 0..ROUNDS {
            let bounds = self.bounds(&curves);
            let needs: Vec<KnotConstraint> = bounds.iter().flat_map(|pair| pair.needs(curves.piece)).collect();
            if !repair(&mut curves.middle, self.reference, &needs) {
                break;
            }
        }
        curves.straighten();
        curves
    }

    fn bounds(&self, curves: &Curves) -> Vec<PairBounds> {
        let bounds_of_pair = |observed: &[ApproximateConstraint]| {
            let pair = observed.first().map_or((0, 0), ApproximateConstraint::pair);
            let mut pieces = vec![Bounds::default(); curves.pieces];
            for one in observed {
                let time = curves.common(one.earlier, one.reading);
                let time = time.clamp(0.0, self.length);
                let mut piece = 0;
                while piece + 1 < curves.pieces && curves.time(piece + 1) <= time {
                    piece += 1;
                }
                let Some(bounds) = pieces.get_mut(piece) else {
                    continue;
                };
                let x = time - curves.time(piece);
                if one.earlier == pair.0 {
                    bounds.upper.push(Point { x, y: one.room });
                } else {
                    bounds.lower.push(Point { x, y: -one.room });
                }
            }
            pieces.iter_mut().for_each(Bounds::reduce);
            PairBounds { pair, pieces }
        };
        let pairs = self.observed.chunk_by(|a, b| a.pair() == b.pair());
        pairs.map(bounds_of_pair).collect()
    }

    /// How early and late every clock can be at every knot.
    fn extents(&self, curves: &Curves, pairs: &[PairBounds]) -> (Vec<Extent>, f64) {
        let mut differences: Vec<Vec<Difference>> = vec![Vec::new(); curves.pieces + 1];
        let mut slack = 0.0_f64;
        for bounds in pairs {
            let (known, contradiction) = bounds.at_knots(curves);
            slack = slack.max(contradiction);
            let (first, second) = bounds.pair;
            for (differences, (least, most)) in differences.iter_mut().zip(known) {
                for (from, to, most) in [(first, second, most), (second, first, -least)] {
                    if most.is_finite() {
                        differences.push(Difference { from, to, most });
                    }
                }
            }
        }
        let extents: Vec<Extent> =
            differences.iter().map(|differences| extent(self.ahead.len(), self.reference, differences)).collect();
        slack = extents.iter().map(|extent| extent.slack).fold(slack, f64::max);
        (extents, slack)
    }

    /// A host's curve as a correction that extends slightly beyond the host's span.
    fn correction(&self, curves: &Curves, host: usize, span: (u64, u64)) -> Correction {
        if host == self.reference {
            return Correction {
                relation: Relation::Reference,
                map: Piecewise::default().within(0),
                ..Correction::default()
            };
        }
        let clock = curves.middle.get(host).map_or(&[][..], Vec::as_slice);
        let ahead = self.ahead.get(host).copied().unwrap_or(0);
        // Readings and the offsets to add.
        let mut knots: Vec<Knot> = (0..)
            .zip(clock)
            .map(|(at, &more)| {
                let reading = self.origin + i128::from(ahead);
                let reading = reading + whole(curves.time(at) + more);
                (reading, whole(-approximate(ahead.into()) - more))
            })
            .collect();
        knots.dedup_by_key(|knot| knot.0);
        let is_shown = [0, curves.pieces.saturating_sub(1)].map(|piece| {
            let (least, most) = curves.drift((self.reference, host), piece);
            least > 0.0 || most < 0.0
        });
        extend(&mut knots, is_shown, span);
        let knots = knots.iter().map(|(ns, added)| (*ns, ns + added)).collect();
        let mut map = Piecewise::new(knots, Beyond::Nearest).unwrap_or_default();
        let mut uncertainty = 0.0_f64;
        for (extent, &middle) in curves.extents.iter().zip(clock) {
            let off = |end: Option<&f64>| end.map_or(f64::INFINITY, |end| (end - middle).abs());
            uncertainty = uncertainty.max(off(extent.earliest.get(host))).max(off(extent.latest.get(host)));
        }
        uncertainty += curves.slack + ROUNDING_NS;
        let drift = match *clock {
            [first, .., last] => (last - first) / self.length,
            _ => 0.0,
        };
        let is_bounded = uncertainty.is_finite();
        map.uncertainty = is_bounded.then(|| u64::try_from(whole(uncertainty.ceil())).unwrap_or(u64::MAX));
        Correction {
            relation: if is_bounded { Relation::Bounded } else { Relation::System },
            map,
            drift_ppb: i64::try_from(whole(-drift * 1e9)).unwrap_or_default(),
            ..Correction::default()
        }
    }
}

/// Extends the knots to the ends of the span: with the drift at that end if proven (`is_shown`), else without drift.
fn extend(knots: &mut Vec<Knot>, is_shown: [bool; 2], span: (u64, u64)) {
    let along = |from: Knot, to: Knot, ns: i128, is_shown: bool| {
        if !is_shown {
            return from.1;
        }
        let run = approximate(to.0 - from.0);
        let rise = approximate(to.1 - from.1);
        from.1 + whole(approximate(ns - from.0) * rise / run)
    };
    let begin = i128::from(span.0.saturating_sub(1));
    let end = i128::from(span.1.saturating_add(1));
    if let [first, second, ..] = *knots.as_slice()
        && begin < first.0
    {
        knots.insert(0, (begin, along(first, second, begin, is_shown[0])));
    }
    if let [.., before, last] = *knots.as_slice()
        && end > last.0
    {
        knots.push((end, along(last, before, end, is_shown[1])));
    }
}

/// Contradictions below this are rounding, ns.
pub(super) const NEGLIGIBLE: f64 = 64.0;

/// Largest drift between two hosts' clocks: quartzes are accurate to some 50 ppm, and NTP slews by up to 500 ppm.
pub(super) const MOST_DRIFT: f64 = 600e-6;

/// The range of the drift of one clock against another.
const ANY_DRIFT: Range = (-MOST_DRIFT, MOST_DRIFT);

/// Piecewise straight clocks: by host, then by knot, the lead relative to the rough constant.
#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    pub(super) pieces: usize,
    pub(super) piece: f64,
    pub(super) middle: Vec<Vec<f64>>,
    /// By knot: how early and late each clock can be.
    pub(super) extents: Vec<Extent>,
    /// The slack needed for contradictions.
    pub(super) slack: f64,
}

impl Curves {
    pub(super) fn flat(hosts: usize, pieces: usize, length: f64) -> Self {
        Self { pieces, piece: length / count(pieces), middle: vec![vec![0.0; pieces + 1]; hosts], ..Self::default() }
    }

    pub(super) fn time(&self, knot: usize) -> f64 {
        self.piece * count(knot)
    }

    /// The common time at which a host's clock shows `reading`.
    pub(super) fn common(&self, host: usize, reading: f64) -> f64 {
        let Some(clock) = self.middle.get(host) else {
            return reading;
        };
        let shows = |knot: usize| self.time(knot) + clock.get(knot).copied().unwrap_or(0.0);
        let (mut low, mut high) = (0, self.pieces);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if shows(middle) <= reading {
                low = middle;
            } else {
                high = middle;
            }
        }
        let (from, to) = (shows(low), shows(low + 1));
        self.time(low) + (reading - from) * (self.time(low + 1) - self.time(low)) / (to - from)
    }

    /// The range of the drift of the second host against the first on a piece.
    pub(super) fn drift(&self, hosts: (usize, usize), piece: usize) -> Range {
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
        // Contradicting bounds give no information.
        if least.is_finite() && most.is_finite() && least < most && self.slack < NEGLIGIBLE {
            (least.max(ANY_DRIFT.0), most.min(ANY_DRIFT.1))
        } else {
            ANY_DRIFT
        }
    }

    /// No clock drifts this fast: such knots come from contradicting constraints. A constant does less harm.
    pub(super) fn straighten(&mut self) {
        let most = 2.0 * MOST_DRIFT * self.piece;
        for clock in &mut self.middle {
            let wild = |two: &[f64]| matches!(two, [from, to] if (to - from).abs() > most);
            if clock.windows(2).any(wild) {
                let mean = clock.iter().sum::<f64>() / count(clock.len());
                clock.fill(mean);
            }
        }
    }
}

/// Bounds on the lead of the second host's clock over the first's, by piece; `x` is the common time in the piece.
pub(super) struct PairBounds {
    pub(super) pair: (usize, usize),
    pub(super) pieces: Vec<Bounds>,
}

impl PairBounds {
    /// Least and greatest difference at every knot, and how much bounds contradict each other.
    pub(super) fn at_knots(&self, curves: &Curves) -> (Vec<Range>, f64) {
        let mut known = vec![OPEN; self.pieces.len() + 1];
        let mut slack = 0.0_f64;
        let drifts: Vec<Range> = (0..self.pieces.len()).map(|piece| curves.drift(self.pair, piece)).collect();
        for (at, (bounds, &drift)) in self.pieces.iter().zip(&drifts).enumerate() {
            let ends = bounds.ends(curves.piece, drift);
            slack = slack.max(ends.slack);
            for (knot, (least, most)) in [(at, ends.first), (at + 1, ends.last)] {
                if let Some(known) = known.get_mut(knot) {
                    *known = (known.0.max(least), known.1.min(most));
                }
            }
        }
        // A range at one knot limits the next one, however little traffic is between them.
        let reach = |from: Range, to: &mut Range, drift: Range| {
            to.0 = to.0.max(from.0 + drift.0 * curves.piece);
            to.1 = to.1.min(from.1 + drift.1 * curves.piece);
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

    /// The bounds as conditions on the two clocks. `piece` is the length of a piece.
    pub(super) fn needs(&self, piece: f64) -> impl Iterator<Item = KnotConstraint> {
        let (first, second) = self.pair;
        self.pieces.iter().enumerate().flat_map(move |(knot, bounds)| {
            let need = move |bound: &Point, earlier, later, most| KnotConstraint {
                earlier,
                later,
                knot,
                part: (bound.x / piece).clamp(0.0, 1.0),
                most,
            };
            let upper = bounds.upper.iter().map(move |bound| need(bound, first, second, bound.y));
            upper.chain(bounds.lower.iter().map(move |bound| need(bound, second, first, -bound.y)))
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a small number of pieces")]
pub(super) fn count(pieces: usize) -> f64 {
    pieces as f64
}
