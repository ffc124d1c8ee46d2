//! Which GPU stamps can be trusted.
//!
//! NCCL reads a kernel channel's stamps from a ring of 64 slots for each channel, without a look whether the slot is
//! still this work's: when the GPU is that far ahead, they are a *later* work's.
//!
//! ```text
//!   launched:         A      B      C      D      E
//!   stamps reported:  1      2      5      4      5        C has E's: later than D's, and reported again by E
//! ```
//!
//! Nothing is made of stamps that are not trusted: neither an interval nor a bound for the clock.

use std::collections::BTreeMap;

/// Why the GPU times of a kernel channel or phase are not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distrust {
    Zero,
    /// 2^63 ns or more, 292 years: no timer gets there, and no offset of a clock leads back.
    Impossible,
    Backwards,
    /// The stamps of a kernel that was launched later on this channel.
    Repeated,
    /// Not in the order in which the kernels were launched.
    OutOfOrder,
    /// A phase outside its channel, or in another phase.
    Outside,
}

/// Start and stop by themselves: both there, possible, and in this order.
pub const fn pair(start_gpu_ns: u64, stop_gpu_ns: u64) -> Result<(u64, u64), Distrust> {
    if start_gpu_ns == 0 || stop_gpu_ns == 0 {
        Err(Distrust::Zero)
    } else if (start_gpu_ns | stop_gpu_ns) > i64::MAX.unsigned_abs() {
        Err(Distrust::Impossible)
    } else if stop_gpu_ns < start_gpu_ns {
        Err(Distrust::Backwards)
    } else {
        Ok((start_gpu_ns, stop_gpu_ns))
    }
}

/// A kernel on a channel, with stamps that are plausible by themselves. The order is that of launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work<R> {
    pub enqueued: u64,
    /// Its launch plan; 0: unknown.
    pub plan: u64,
    pub start_gpu_ns: u64,
    /// The second one.
    pub stop_gpu_ns: u64,
    pub of: R,
}

/// Holds the stamps of the kernels of a channel, in the order of launches, against each other.
pub fn judge<R: Copy>(ring: &[Work<R>], mut distrust: impl FnMut(R, Distrust)) {
    if is_in_order(ring) {
        return;
    }
    let mut is_repeated = vec![false; ring.len()];
    find_repeated(ring, |work| work.start_gpu_ns, &mut is_repeated);
    find_repeated(ring, |work| work.stop_gpu_ns, &mut is_repeated);
    let mut left = Vec::with_capacity(ring.len());
    for (work, is_repeated) in ring.iter().zip(is_repeated) {
        match is_repeated {
            true => distrust(work.of, Distrust::Repeated),
            false => left.push(*work),
        }
    }
    for of in out_of_order(&left) {
        distrust(of, Distrust::OutOfOrder);
    }
}

/// Whether nothing repeats and nothing goes back: so it nearly always is.
fn is_in_order<R>(ring: &[Work<R>]) -> bool {
    ring.iter().zip(ring.iter().skip(1)).all(|(one, next)| {
        let (starts, stops) = ((one.start_gpu_ns, next.start_gpu_ns), (one.stop_gpu_ns, next.stop_gpu_ns));
        match one.plan != 0 && one.plan == next.plan {
            true => starts.0 <= starts.1 && stops.0 <= stops.1,
            false => starts.0 < starts.1 && stops.0 < stops.1,
        }
    })
}

/// Of kernels with the same stamp the slot is that of the last; the others came too late to see theirs.
fn find_repeated<R>(ring: &[Work<R>], stamp: impl Fn(&Work<R>) -> u64, is_repeated: &mut [bool]) {
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for (work, is_repeated) in ring.iter().zip(is_repeated).rev().filter(|(work, _)| work.plan != 0) {
        *is_repeated |= *last.entry(stamp(work)).or_insert(work.plan) != work.plan;
    }
}

/// Those outside the longest chain of starts that never goes back: the fewest that can be wrong.
fn out_of_order<R: Copy>(works: &[Work<R>]) -> Vec<R> {
    // By length of a chain: the work that ends one as early as possible. Patience sorting.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(works.len());
    let start = |number: usize| works.get(number).map(|work| work.start_gpu_ns);
    for (number, work) in works.iter().enumerate() {
        let length = ends.partition_point(|&end| start(end) <= Some(work.start_gpu_ns));
        before.push(length.checked_sub(1).and_then(|at| ends.get(at)).copied());
        match ends.get_mut(length) {
            Some(end) => *end = number,
            None => ends.push(number),
        }
    }
    let mut in_chain = vec![false; works.len()];
    let mut next = ends.last().copied();
    while let Some(number) = next {
        if let Some(kept) = in_chain.get_mut(number) {
            *kept = true;
        }
        next = before.get(number).copied().flatten();
    }
    works.iter().zip(in_chain).filter(|(_, kept)| !kept).map(|(work, _)| work.of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(stamps: &[(u64, u64)]) -> Vec<(usize, Distrust)> {
        let work = |(of, &(start_gpu_ns, stop_gpu_ns)): (usize, &(u64, u64))| {
            let enqueued = u64::try_from(of).expect("few") + 1;
            Work { enqueued, plan: enqueued, start_gpu_ns, stop_gpu_ns, of }
        };
        let ring: Vec<Work<usize>> = stamps.iter().enumerate().map(work).collect();
        let mut all = Vec::new();
        judge(&ring, |of, why| all.push((of, why)));
        all
    }

    #[test]
    fn a_slot_is_that_of_the_last_kernel_that_has_its_stamps() {
        assert_eq!(judged(&[(1, 2), (3, 4), (5, 6)]), []);
        assert_eq!(judged(&[(1, 2), (5, 6), (3, 4), (5, 6)]), [(1, Distrust::Repeated)]);
        assert_eq!(judged(&[(1, 6), (2, 6)]), [(0, Distrust::Repeated)]);
        assert_eq!(judged(&[(1, 2), (9, 10), (3, 4), (5, 6)]), [(1, Distrust::OutOfOrder)]);
    }
}
