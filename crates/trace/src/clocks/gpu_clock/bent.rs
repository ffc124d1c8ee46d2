//! Several straight lines, joined, where no single one keeps all bounds of a GPU's clock: its timer or the host's clock
//! changed pace in between.
//!
//! ```text
//!  offset │    ▾   ▾      ▾     callback − stamp
//!         │  ════════╤════╗▾     At each stamp all bounds of all stamps say, with the limit of the drift, between what the
//!         │    ▴  ▴   ▴    ╚══   offset lies. A line goes on as long as it can; the next one begins where it ends.
//!         │           knot  ▴ launch − stamp
//!         └──────────────────── GPU timer
//! ```
//!
//! Few lines, each bend in the middle of where it can be (or a short line there). At a knot the offset is in the middle of what
//! is possible there with all bounds before and after: then it keeps all of them, see [`super::line`]. The residual
//! does not believe in lines: it is how far the farther end of what is possible at a stamp is from what is drawn, so it
//! holds as long as the bounds and the limit of the drift do.

use super::line::{Line, MOST_DRIFT, Near, TOLERANCE_NS, cut, range};

/// The knots, and how far off the truth can be from what is between them.
#[derive(Clone, Debug)]
pub(super) struct Bent {
    /// Where, after the first stamp, and which offset.
    pub(super) knots: Vec<Near>,
    /// The residual.
    pub(super) residual: f64,
}

/// Between what the offset at a stamp is.
#[derive(Clone, Copy, Debug)]
struct Gap {
    after: f64,
    low: f64,
    high: f64,
}

/// From … to, both included.
type Range = (f64, f64);

/// The gap at each stamp, in their order; `None` where some bounds contradict each other.
fn tube(lowers: &[Near], uppers: &[Near]) -> Option<Vec<Gap>> {
    let lowers = lowers.iter().map(|bound| Gap {
        after: bound.after,
        low: bound.offset,
        high: f64::INFINITY,
    });
    let uppers = uppers.iter().map(|bound| Gap {
        after: bound.after,
        low: f64::NEG_INFINITY,
        high: bound.offset,
    });
    let mut tube: Vec<Gap> = lowers.chain(uppers).collect();
    tube.sort_by(|a, b| a.after.total_cmp(&b.after));
    tube.dedup_by(|next, gap| {
        let same = next.after <= gap.after;
        if same {
            narrow(gap, next);
        }
        same
    });
    let mut before: Option<Gap> = None;
    for gap in &mut tube {
        narrow_by_neighbour(gap, before);
        before = Some(*gap);
    }
    before = None;
    for gap in tube.iter_mut().rev() {
        narrow_by_neighbour(gap, before);
        before = Some(*gap);
    }
    let holds = |gap: &Gap| gap.low <= gap.high + TOLERANCE_NS;
    tube.iter().all(holds).then_some(tube)
}

fn narrow(gap: &mut Gap, by: &Gap) {
    gap.low = gap.low.max(by.low);
    gap.high = gap.high.min(by.high);
}

/// The timer drifts no faster than it can.
fn narrow_by_neighbour(gap: &mut Gap, neighbour: Option<Gap>) {
    if let Some(neighbour) = neighbour {
        let reach = MOST_DRIFT * (gap.after - neighbour.after).abs();
        let by = Gap {
            after: gap.after,
            low: neighbour.low - reach,
            high: neighbour.high + reach,
        };
        narrow(gap, &by);
    }
}

/// The lines through gaps that begin in a range at the first of them: offsets at the first and the last gap.
fn lines(gaps: &[Gap], from: Range) -> Vec<Line> {
    let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
        return Vec::new();
    };
    let span = last.after - first.after;
    let drift = MOST_DRIFT * span;
    let (low, high) = from;
    let mut polygon = vec![
        (low, low - drift),
        (high, high - drift),
        (high, high + drift),
        (low, low + drift),
    ];
    for gap in gaps {
        let part = if span > 0.0 {
            (gap.after - first.after) / span
        } else {
            0.0
        };
        let at = |line: Line| (1.0 - part) * line.0 + part * line.1;
        cut(&mut polygon, |line| at(line) - gap.high);
        cut(&mut polygon, |line| gap.low - at(line));
    }
    polygon
}

/// Where a line from `begin` can end at last.
fn reach(tube: &[Gap], begin: usize, from: Range) -> Option<(usize, Range)> {
    let try_to = |end: usize| {
        let lines = lines(tube.get(begin..=end)?, from);
        let to = range(lines.iter().map(|line| line.1));
        (!lines.is_empty()).then_some(to)
    };
    let last = tube.len().checked_sub(1)?;
    let mut good = (begin + 1, try_to(begin + 1)?);
    let mut step = 1;
    let mut bad = last + 1;
    while good.0 < last && good.0 + 1 < bad {
        let end = if bad > last {
            step *= 2;
            (begin + step).min(last)
        } else {
            usize::midpoint(good.0, bad)
        };
        match try_to(end) {
            Some(to) => good = (end, to),
            None => bad = end,
        }
    }
    Some(good)
}

/// Whether a line has to begin where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    Joined,
    Free,
}

/// The places where lines end that are each as long as can be, from the front.
fn knots(tube: &[Gap], joint: Joint) -> Option<Vec<usize>> {
    let whole = |at: usize| tube.get(at).map(|gap| (gap.low, gap.high));
    let mut knots = vec![0];
    let mut at = (0, whole(0)?);
    while at.0 + 1 < tube.len() {
        at = reach(tube, at.0, at.1)?;
        if joint == Joint::Free {
            at.1 = whole(at.0)?;
        }
        knots.push(at.0);
    }
    Some(knots)
}

/// The range of offsets at each knot with which lines go through all gaps.
fn ranges(tube: &[Gap], knots: &[usize]) -> Option<Vec<Range>> {
    let first = tube.get(*knots.first()?)?;
    let mut ranges = vec![(first.low, first.high)];
    let mut all = Vec::with_capacity(knots.len());
    for pair in knots.windows(2) {
        let &[begin, end] = pair else { continue };
        let lines = lines(tube.get(begin..=end)?, *ranges.last()?);
        if lines.is_empty() {
            return None;
        }
        ranges.push(range(lines.iter().map(|line| line.1)));
        all.push(lines);
    }
    // From behind: what is left of each when those after it are what they are.
    for (at, lines) in all.iter_mut().enumerate().rev() {
        let &(low, high) = ranges.get(at + 1)?;
        cut(lines, |line| line.1 - high);
        cut(lines, |line| low - line.1);
        *ranges.get_mut(at)? = range(lines.iter().map(|line| line.0));
    }
    let holds = |range: &Range| range.0 <= range.1 + TOLERANCE_NS;
    ranges.iter().all(holds).then_some(ranges)
}

/// Where lines as long as can be end, and where those from behind begin: a bend is between the two.
fn bends(tube: &[Gap]) -> Option<(Vec<usize>, Vec<usize>)> {
    let mirrored: Vec<Gap> = tube
        .iter()
        .rev()
        .map(|gap| Gap {
            after: -gap.after,
            ..*gap
        })
        .collect();
    let last = tube.len().checked_sub(1)?;
    let from_behind = knots(&mirrored, Joint::Free)?;
    let begins = from_behind.iter().rev().map(|at| last - at);
    Some((knots(tube, Joint::Free)?, begins.collect()))
}

/// Knots, and the range of offsets at each: in the middle of where each bend can be; else two for each; else those of
/// lines that are joined from the front, which there always are.
fn places(tube: &[Gap]) -> Option<(Vec<usize>, Vec<Range>)> {
    let (ends, begins) = bends(tube)?;
    let mut middle: Vec<usize> = ends
        .iter()
        .zip(&begins)
        .map(|(&end, &begin)| usize::midpoint(end, begin))
        .collect();
    middle.dedup();
    let mut both: Vec<usize> = ends.iter().chain(&begins).copied().collect();
    both.sort_unstable();
    both.dedup();
    let candidates = [middle, both];
    let found = candidates
        .into_iter()
        .find_map(|knots| ranges(tube, &knots).map(|ranges| (knots, ranges)));
    found.or_else(|| {
        let joined = knots(tube, Joint::Joined)?;
        let ranges = ranges(tube, &joined)?;
        Some((joined, ranges))
    })
}

/// The lines that keep all bounds; `None` where none do.
pub(super) fn fit(lowers: &[Near], uppers: &[Near]) -> Option<Bent> {
    let tube = tube(lowers, uppers)?;
    let (places, ranges) = places(&tube)?;
    let mut bent = Bent {
        knots: Vec::with_capacity(places.len()),
        residual: 0.0,
    };
    for (&at, &(low, high)) in places.iter().zip(&ranges) {
        bent.knots.push(Near {
            after: tube.get(at)?.after,
            offset: low + (high - low) / 2.0,
        });
    }
    for (pair, ends) in bent.knots.windows(2).zip(places.windows(2)) {
        let (&[from, to], &[begin, end]) = (pair, ends) else {
            continue;
        };
        for gap in tube.get(begin..=end)? {
            let part = (gap.after - from.after) / (to.after - from.after);
            let offset = from.offset + part * (to.offset - from.offset);
            bent.residual = bent.residual.max(gap.high - offset).max(offset - gap.low);
        }
    }
    Some(bent)
}

#[cfg(test)]
mod tests;
