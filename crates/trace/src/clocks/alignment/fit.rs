//! The clocks of hosts that bound each other: continuous, straight on pieces of equal length, as few as keep the
//! constraints.

use std::collections::BTreeMap;

use super::bounds::{Marks, Observed};
use super::clock::{Correction, Knot, Relation};
use super::curves::{Curves, NEGLIGIBLE, approximate_count};
use super::pairs::PairMarks;
use super::paths::{Difference, Extent, extent};
use super::repair::{Need, repair};
use super::{Constraint, approximate, number, rough, whole};
use crate::tables::place::index;

/// Oscillators change their pace with the temperature: a line is believed for no longer than this, ns.
const LONGEST_PIECE: f64 = 600e9;
/// And not asked to bend sooner than this.
const SHORTEST_PIECE: f64 = 2e9;
/// More pieces are not tried.
const MOST_PIECES: usize = 256;
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
